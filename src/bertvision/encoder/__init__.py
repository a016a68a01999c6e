"""Token windows → hidden states of every layer, from an encoder that learns as much or as little as you like."""

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.learn import Learn, apply_learn, parse_learn
from bertvision.encoder.load import build_encoder, load_encoder
from bertvision.encoder.states import HiddenStates

__all__ = ["Encoder", "HiddenStates", "Learn", "apply_learn", "build_encoder", "load_encoder", "parse_learn"]
