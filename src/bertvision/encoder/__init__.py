"""Token windows → hidden states of every layer; all, some or none of the encoder's parameters learn."""

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.learn import Learn, apply_learn, parse_learn
from bertvision.encoder.load import build_encoder, load_encoder
from bertvision.encoder.states import HiddenStates

__all__ = ["Encoder", "HiddenStates", "Learn", "apply_learn", "build_encoder", "load_encoder", "parse_learn"]
