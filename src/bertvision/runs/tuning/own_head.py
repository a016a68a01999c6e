"""The head that comes with an encoder: that of a fine-tuned checkpoint, or of a question-answering pack."""

from typing import Any

from bertvision.encoder.own_output import OwnOutput, own_output
from bertvision.errors import BertVisionError
from bertvision.heads import Head, load_head
from bertvision.pack_files import check_digest, find_pack, head_file, read_pack_file
from bertvision.tasks.task import Task


def find_own_head(encoder: str, task: Task) -> OwnOutput | None:
    """The head that comes with an encoder for tasks of this kind; None if there is none.

    Of a pack it is its head, if it has exactly one, and if pack and task are of kind `spans`: the heads of other packs
    may read other inputs than tuning gives them, such as aligned pairs.

    Raises:
        BertVisionError: its files cannot be read.
    """
    folder = find_pack(encoder)
    if folder is None:
        return own_output(encoder, task.kind, task.outputs)
    kind, names, digests = read_pack_file(folder, _heads)
    if {task.kind, kind} != {"spans"} or len(names) != 1:
        return None
    file = head_file(names[0])
    check_digest(folder / file, digests.get(file))
    head = load_head((folder / file).parent)
    return OwnOutput(head.name, dict(head.options), head.state_dict())


def _heads(card: dict[str, Any]) -> tuple[str, list[str], dict[str, str]]:
    """What the card of a pack says: the kind of its task, the names of its heads, and the digests of its files."""
    return str(card["task"]["kind"]), [str(name) for name in card["heads"]], dict(card.get("digests", {}))


def load_own_head(head: Head, own: OwnOutput) -> None:
    """Initialise a head with the weights that came with an encoder.

    Raises:
        BertVisionError: the head's parameters have other names or shapes.
    """
    state = head.state_dict()
    misfits = [name for name, value in own.weights.items() if name not in state or state[name].shape != value.shape]
    if misfits:
        raise BertVisionError(
            f"--set: the encoder brings head '{own.head}' with it, whose '{misfits[0]}' does not fit these options. "
            f"Leave them out, or start afresh: --head {own.head}"
        )
    # checkpoints have no query for attention pooling: it keeps its initial value
    head.load_state_dict(own.weights, strict=head.token_pool is None)
