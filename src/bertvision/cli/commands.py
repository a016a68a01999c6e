"""The table of commands: name, summary, module and examples. A command's module is imported only when it is run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A command's module holds a dataclass `Options` and a function `run(options) -> int`."""

    summary: str
    module: str
    examples: tuple[str, ...]


COMMANDS = {
    "ls": Command(
        "List the tasks, the heads or the built-in data sets.",
        "bertvision.cli.ls",
        ("bertvision ls tasks", "bertvision ls heads --json", "bertvision ls sets"),
    ),
    "data check": Command(
        "Read every row of a task's data and report rows, labels, token windows and bad rows.",
        "bertvision.cli.data_check",
        (
            "bertvision data check squad2 --data DIR",
            "bertvision data check own --data reviews.csv --text review --label stars",
        ),
    ),
    "score": Command(
        "Score a file of predictions like the task's official script.",
        "bertvision.cli.score",
        (
            "bertvision score squad2 dev.json predictions.json --na-prob no_answer.json",
            "bertvision score mrpc MRPC/dev.tsv predictions.tsv --bootstrap 1000 --json",
            "bertvision score squad2 dev.json ours.json --against theirs.json",
            "bertvision score squad2 dev.json RUN/evaluation/dev/own_output/paper_answers.json --scorer paper",
        ),
    ),
    "params": Command(
        "Count the total and trainable parameters of an encoder with a head, or of a head alone; loads no weights.",
        "bertvision.cli.params",
        (
            "bertvision params --learn lora:16 --head layer_mix",
            "bertvision params --encoder config.json --learn houlsby:64 --json",
            "bertvision params --head adapter_pool --width 1024 --layers 25 --set size=64 --set skip=true",
        ),
    ),
    "tune": Command(
        "Fine-tune an encoder for a task, wholly or in part, with snapshots at fractions of an epoch.",
        "bertvision.cli.tune",
        (
            "bertvision tune squad2 --learn lora:16 --epochs 2 --snapshots 0.3,1",
            "bertvision tune squad2 --learn top:6 --head dot_attention",
            "bertvision tune own --data reviews/ --text review --label stars --learn top:2",
            "bertvision tune squad2 --learn lora:16 --cross-fit 4 --out runs/folds",
            "bertvision tune squad2 --learn lora:24 --teacher runs/large --out runs/small",
            "accelerate launch -m bertvision tune squad2 --learn full --out runs/full",
        ),
    ),
    "multitask": Command(
        "Fine-tune one encoder for several tasks at once, with a head for each task, and score them all.",
        "bertvision.cli.multitask",
        (
            "bertvision multitask --tasks sst5,sts,quora --data DIR --learn full --cap quora=4000 --balance",
            "bertvision multitask --data DIR --input apart,pair,qa --learn lora:16 --out runs/inputs",
            "bertvision multitask --tasks squad2,sst2 --heads squad2=last_layer --order temperature --temperature 5",
        ),
    ),
    "triplets": Command(
        "Fine-tune an encoder on triplets, so that similar texts get close; reports distances before and after.",
        "bertvision.cli.triplets",
        (
            "bertvision triplets --tasks sst5,sts,quora --data DIR --cap quora=4000 --out runs/near",
            "bertvision triplets --data DIR --loss in-batch --learn lora:16 --out runs/near",
            "bertvision multitask --data DIR --encoder runs/near",
        ),
    ),
    "fit": Command(
        "Train many heads in one pass over a frozen encoder, each as if trained alone; convex heads are solved.",
        "bertvision.cli.fit",
        (
            "bertvision fit sst5 --heads last_layer,layer_concat",
            "bertvision fit squad2 --encoder runs/squad2-lora16@0.3 --heads all --out runs/heads",
            "bertvision fit squad2 --heads adapter_pool --grid lr=3e-4,1e-3 --grid size=64,128 --seeds 3",
            "bertvision fit cola,sst5,rte --data DIR --heads last_layer,layer_concat --out runs/three",
            "bertvision fit squad2 --encoder runs/squad2-lora16 --snapshots 0.1,0.3,1 --heads layer_mix,ladder",
            "bertvision fit squad2 --encoder runs/folds --cross-fit 4 --heads all",
        ),
    ),
    "evaluate": Command(
        "Score every head of a run and its encoder's own output, with intervals, thresholds and paired tests.",
        "bertvision.cli.evaluate",
        (
            "bertvision evaluate runs/heads",
            "bertvision evaluate runs/squad2-lora16@0.3 --json",
            "bertvision evaluate runs/heads --data DIR --split test --bootstrap 10000",
        ),
    ),
    "ensemble": Command(
        "Combine heads of one or several runs, and encoders' own outputs, into an ensemble, and score it.",
        "bertvision.cli.ensemble",
        (
            "bertvision ensemble runs/heads --how greedy",
            "bertvision ensemble runs/freeze/at-0.3 runs/freeze/at-1 --how max --heads adapter_pool,own_output",
        ),
    ),
    "analyse": Command(
        "Show where a run's models fail, which layers they read, how well calibrated they are, what quality costs.",
        "bertvision.cli.analyse",
        (
            "bertvision analyse runs/heads",
            "bertvision analyse runs/heads --question 56ddde6b9a695914005b9628 --json",
            "bertvision analyse runs/squad2-lora16@0.3 --data DIR --split test",
        ),
    ),
    "pack": Command(
        "Save a run as a pack: the changes to its encoder, its heads and its threshold, in one small folder.",
        "bertvision.cli.pack",
        (
            "bertvision pack runs/heads --out packs/mood",
            "bertvision pack runs/squad2-lora16@1 --heads own_output --licence cc-by-sa-4.0 --out packs/qa",
            "bertvision pack runs/heads --heads layer_mix,ladder --out packs/both --push user/name",
        ),
    ),
    "answer": Command(
        "Answer a question from a text or a folder of texts, with the position and probability of the answer.",
        "bertvision.cli.answer",
        (
            'bertvision answer "Who wrote it?" --context README.md',
            'bertvision answer "Who wrote it?" --context docs/ --pack packs/qa --top 5 --json',
        ),
    ),
    "serve": Command(
        "Serve packs over HTTP, many clients in one pass, with limits, logs, metrics and a page to try them.",
        "bertvision.cli.serve",
        (
            "bertvision serve --pack packs/qa",
            "bertvision serve --pack packs/qa --pack packs/mood --port 9000 --queue 1000",
            "BERTVISION_TOKEN=secret bertvision serve --host 0.0.0.0 --pack packs/qa",
        ),
    ),
    "predict": Command(
        "Predict all examples of a file of any size, in the official format; resumes when run again.",
        "bertvision.cli.predict",
        (
            "bertvision predict squad2 dev-v2.0.json.gz --pack packs/qa --out predictions.json",
            "bertvision predict sst2 reviews.csv --text review --pack packs/mood --out labels.tsv",
        ),
    ),
    "report": Command(
        "Write a report on finished runs: a page with tables and plots, Markdown, LaTeX tables and model cards.",
        "bertvision.cli.report",
        (
            "bertvision report runs/heads --out report",
            "bertvision report runs/tuned runs/heads runs/freeze --title 'Moods' --out report",
        ),
    ),
    "search": Command(
        "Search for the best head, or the best way to tune for one or several tasks, by held-out examples.",
        "bertvision.cli.search",
        (
            "bertvision search sst5 --space space.toml --trials 20 --out runs/search",
            "bertvision search sst5,sts,quora --space several.toml --data DIR --trials 30 --epochs 3",
            "bertvision search squad2 --space space.toml --trials 60 --storage postgresql://me@host/searches",
        ),
    ),
    "run glue": Command(
        "Tune a little, fit heads and evaluate for every GLUE task that has data; prints one table with the average.",
        "bertvision.cli.run_glue",
        (
            "bertvision run glue --data DIR --learn none",
            "bertvision run glue --data DIR --encoder E --learn lora:16 --epochs 0.3 --out runs/glue",
        ),
    ),
    "bench": Command(
        "Run a suite of experiments, the most important first, into one record; resumes when run again.",
        "bertvision.cli.bench",
        (
            "bertvision bench rival --data DIR --encoder all-mpnet-base-v2=models/mpnet --max-minutes 25",
            "bertvision bench experiments/smoke.toml --seeds 1 --results records",
            "bertvision bench heads --dry-run",
        ),
    ),
    "export": Command(
        "Export a pack as an ONNX graph with tokenizer and card, checked against PyTorch; it then runs without torch.",
        "bertvision.cli.export",
        (
            "bertvision export packs/qa --to onnx --out packs/qa-onnx",
            "bertvision export packs/qa --to onnx --int8 --data dev-v2.0.json --out packs/qa-int8",
        ),
    ),
    "plan": Command(
        "Time a few batches on this machine and show whether fit should stream or store hidden states, and why.",
        "bertvision.cli.plan",
        (
            "bertvision plan squad2 --data DIR --heads all --epochs 5",
            "bertvision plan squad2 --data DIR --heads layer_mix --epochs 10 --max-disk 20GB --max-memory 8GB --json",
        ),
    ),
    "cost": Command(
        "Estimate time, GPU-hours, dollars and bytes for work of any size on any number of GPUs; runs nothing.",
        "bertvision.cli.cost",
        (
            "bertvision cost --encoder config.json --learn full --heads layer_mix,adapter_pool",
            "bertvision cost --encoder config.json --passages 100000000 --lengths 150 --gpus 8,64 --price 3 --json",
        ),
    ),
    "extract": Command(
        "Write the hidden states of a task's windows to a store: no padding, 16 or 8 bits, checksums, resumable.",
        "bertvision.cli.extract",
        (
            "bertvision extract squad2 --data DIR --store stores/squad2 --max-disk 20GB",
            "bertvision extract squad2 --data DIR --keep int8 --layers 0..6",
        ),
    ),
    "store info": Command(
        "Show what a store holds.", "bertvision.cli.store_info", ("bertvision store info stores/squad2",)
    ),
    "store verify": Command(
        "Check that every file of a store is as it was written.",
        "bertvision.cli.store_verify",
        ("bertvision store verify stores/squad2",),
    ),
    "demo": Command(
        "Run the whole workflow on built-in questions: tune, fit heads, evaluate, ensemble, analyse, report.",
        "bertvision.cli.demo",
        ("bertvision demo", "bertvision demo --out runs/mine"),
    ),
}
