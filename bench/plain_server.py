"""The baseline of bench_server.py: a plain transformers model behind FastAPI, one request per pass.

python bench/plain_server.py PACK      # prints its address
"""

import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import uvicorn
from fastapi import FastAPI

from bertvision.encoder.batch import padded_batch
from bertvision.evaluation.outputs import split_scores
from bertvision.packs.inputs import make_questions, question_windows
from bertvision.packs.models import PackModels
from bertvision.packs.pack import Pack
from bertvision.packs.spans import decode_answers


def build(pack: Pack) -> FastAPI:
    """A pack's model with the same weights and decoding; eager attention in float32, and always all layers."""
    models = PackModels([pack], device="cpu")
    model: Any = models.encoder.model
    model.set_attn_implementation("eager")
    (head,) = models.heads[0]
    app = FastAPI()

    @app.post("/v1/answer")
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        questions = make_questions([body["question"]], [body["context"]])
        windows = question_windows(pack.card, questions, models.tokenizer)
        batch = padded_batch(windows, np.arange(len(windows)), pad=models.passes.pad)
        inputs = {"input_ids": batch.ids, "token_type_ids": batch.types, "attention_mask": batch.mask.long()}
        with torch.inference_mode():
            states = torch.stack(model(**inputs, output_hidden_states=True).hidden_states, dim=1)
            outputs = head(states[:, head.reads[0] : head.reads[-1] + 1], batch.mask)
        scores = split_scores(outputs[batch.mask].numpy())
        said = decode_answers(pack.card, windows, questions, scores, best=3, limit=30)
        return {"answer": [body["context"][span.start : span.end] for span in said.spans[0]]}

    return app


def main() -> None:
    """Serve at a free port."""
    app = build(Pack.load(Path(sys.argv[1])))
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[listening])


if __name__ == "__main__":
    main()
