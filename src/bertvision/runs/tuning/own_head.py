"""The output that an encoder brings with it: a fine-tuned checkpoint's, or the head of a question-answering pack."""

from bertvision.encoder.own_output import OwnOutput, own_output
from bertvision.errors import BertVisionError
from bertvision.heads import Head, load_head
from bertvision.pack_files import HEADS_FOLDER, find_pack, read_pack_file, unreadable
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
    card = read_pack_file(folder)
    try:
        kind, names = str(card["task"]["kind"]), [str(name) for name in card["heads"]]
    except (LookupError, TypeError) as error:
        raise unreadable(folder, error) from None
    if {task.kind, kind} != {"spans"} or len(names) != 1:
        return None
    head = load_head(folder / HEADS_FOLDER / names[0])
    return OwnOutput(head.name, dict(head.options), head.state_dict())


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
