"""The output that an encoder brings with it: a fine-tuned checkpoint's, or the head of a question-answering pack."""

from typing import Any

from bertvision.encoder.own_output import OwnOutput, own_output
from bertvision.errors import BertVisionError
from bertvision.heads import Head, load_head
from bertvision.pack_files import check_digest, find_pack, head_file, read_pack_file
from bertvision.tasks.task import Task


def find_own_head(encoder: str, task: Task) -> OwnOutput | None:
    """The output that an encoder has for tasks of this kind; None if it has none.

    Of a pack it is its head, where it has one alone and both it and the task are about answers in a text: packs for
    labels may read other rows than tuning does.

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
    """Of a pack: the kind of its task, the names of its heads, and the digests of its files."""
    return str(card["task"]["kind"]), [str(name) for name in card["heads"]], dict(card.get("digests", {}))


def load_own_head(head: Head, own: OwnOutput) -> None:
    """Start a head from an output that an encoder brought with it.

    Raises:
        BertVisionError: the head has another shape.
    """
    wanted = head.state_dict()
    odd = [name for name, value in own.weights.items() if name not in wanted or wanted[name].shape != value.shape]
    if odd:
        raise BertVisionError(
            f"--set: the encoder brings head '{own.head}' with it, whose '{odd[0]}' does not fit these options. "
            f"Leave them out, or start afresh: --head {own.head}"
        )
    head.load_state_dict(own.weights, strict=head.token_pool is None)  # a query is nobody's own
