"""Quality close to full fine-tuning from small heads that read the hidden states of all layers of an encoder."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertvision.encoder import Encoder, HiddenStates, load_encoder
    from bertvision.errors import BertVisionError
    from bertvision.estimators import AllLayerClassifier, AllLayerFeatures, AllLayerRegressor
    from bertvision.evaluation.decode import decode_spans
    from bertvision.evaluation.score import Scoring, score_squad1, score_squad2, score_targets
    from bertvision.evaluation.threshold import fit_threshold
    from bertvision.heads import (
        HEADS,
        Head,
        HeadEntry,
        HeadShape,
        LayerwiseHead,
        OutputMap,
        build_head,
        load_head,
        save_head,
    )
    from bertvision.packs.answer import Document, QuestionAnswer, answer_question
    from bertvision.packs.card import PackCard
    from bertvision.packs.export import export_pack
    from bertvision.packs.exported import ExportedPack
    from bertvision.packs.make import PackResult, make_pack
    from bertvision.packs.multi_task import MultiTask
    from bertvision.packs.open_pack import open_pack
    from bertvision.packs.pack import Pack
    from bertvision.packs.predict import Predicted, predict_file
    from bertvision.packs.question_answerer import QuestionAnswerer
    from bertvision.packs.text_models import TextClassifier, TextScorer
    from bertvision.report.write import ReportResult, write_report
    from bertvision.runs.analysing.analyse import AnalysisResult, analyse
    from bertvision.runs.analysing.analysis_record import AnalysisRecord
    from bertvision.runs.fitting.fit import FitResult, fit_heads
    from bertvision.runs.fitting.fit_request import FitRequest
    from bertvision.runs.fitting.fit_tasks import TasksResult, fit_tasks
    from bertvision.runs.fitting.freeze_points import FreezeResult, fit_snapshots
    from bertvision.runs.judging.ensemble import EnsembleResult, ensemble
    from bertvision.runs.judging.ensemble_record import EnsembleRecord
    from bertvision.runs.judging.evaluate import EvaluationResult, evaluate
    from bertvision.runs.judging.evaluation_record import EvaluationRecord
    from bertvision.runs.planning.plan_fit import plan_fit
    from bertvision.runs.planning.planner import FitPlan
    from bertvision.runs.request import TeacherRequest, TuneRequest
    from bertvision.runs.searching.glue import GlueRequest, GlueResult, run_glue
    from bertvision.runs.searching.search import SearchPlace, SearchResult, search
    from bertvision.runs.searching.search_file import load_space
    from bertvision.runs.searching.search_request import SearchRequest
    from bertvision.runs.searching.search_space import SearchSpace
    from bertvision.runs.tuning.cross_fit import CrossFitResult, tune_folds
    from bertvision.runs.tuning.multitask import metrics_by_task, multitask, multitask_inputs
    from bertvision.runs.tuning.multitask_request import MultitaskRequest
    from bertvision.runs.tuning.triplet_request import TripletRequest
    from bertvision.runs.tuning.triplets import tune_triplets
    from bertvision.runs.tuning.tune import tune
    from bertvision.runs.tuning.tuning import TuneResult
    from bertvision.tasks.load import TASKS, TaskData, load_task
    from bertvision.tasks.own import OwnColumns
    from bertvision.tasks.task import Task
    from bertvision.tasks.tokenizer import TextTokenizer
    from bertvision.tasks.windows import WindowOptions, Windows, build_windows
    from bertvision.training.options import TuneOptions
    from bertvision.training.trainee import HeadSpec

__version__ = "0.1.0"

__all__ = [
    "HEADS",
    "TASKS",
    "AllLayerClassifier",
    "AllLayerFeatures",
    "AllLayerRegressor",
    "AnalysisRecord",
    "AnalysisResult",
    "BertVisionError",
    "CrossFitResult",
    "Document",
    "Encoder",
    "EnsembleRecord",
    "EnsembleResult",
    "EvaluationRecord",
    "EvaluationResult",
    "ExportedPack",
    "FitPlan",
    "FitRequest",
    "FitResult",
    "FreezeResult",
    "GlueRequest",
    "GlueResult",
    "Head",
    "HeadEntry",
    "HeadShape",
    "HeadSpec",
    "HiddenStates",
    "LayerwiseHead",
    "MultiTask",
    "MultitaskRequest",
    "OutputMap",
    "OwnColumns",
    "Pack",
    "PackCard",
    "PackResult",
    "Predicted",
    "QuestionAnswer",
    "QuestionAnswerer",
    "ReportResult",
    "Scoring",
    "SearchPlace",
    "SearchRequest",
    "SearchResult",
    "SearchSpace",
    "Task",
    "TaskData",
    "TasksResult",
    "TeacherRequest",
    "TextClassifier",
    "TextScorer",
    "TextTokenizer",
    "TripletRequest",
    "TuneOptions",
    "TuneRequest",
    "TuneResult",
    "WindowOptions",
    "Windows",
    "analyse",
    "answer_question",
    "build_head",
    "build_windows",
    "decode_spans",
    "ensemble",
    "evaluate",
    "export_pack",
    "fit_heads",
    "fit_snapshots",
    "fit_tasks",
    "fit_threshold",
    "load_encoder",
    "load_head",
    "load_space",
    "load_task",
    "make_pack",
    "metrics_by_task",
    "multitask",
    "multitask_inputs",
    "open_pack",
    "plan_fit",
    "predict_file",
    "run_glue",
    "save_head",
    "score_squad1",
    "score_squad2",
    "score_targets",
    "search",
    "tune",
    "tune_folds",
    "tune_triplets",
    "write_report",
]

_MODULES = {
    "bertvision.encoder": ("Encoder", "HiddenStates", "load_encoder"),
    "bertvision.errors": ("BertVisionError",),
    "bertvision.estimators": ("AllLayerClassifier", "AllLayerFeatures", "AllLayerRegressor"),
    "bertvision.evaluation.decode": ("decode_spans",),
    "bertvision.evaluation.score": ("Scoring", "score_squad1", "score_squad2", "score_targets"),
    "bertvision.evaluation.threshold": ("fit_threshold",),
    "bertvision.heads": (
        "HEADS",
        "Head",
        "HeadEntry",
        "HeadShape",
        "LayerwiseHead",
        "OutputMap",
        "build_head",
        "load_head",
        "save_head",
    ),
    "bertvision.runs.analysing.analyse": ("AnalysisResult", "analyse"),
    "bertvision.runs.analysing.analysis_record": ("AnalysisRecord",),
    "bertvision.packs.answer": ("Document", "QuestionAnswer", "answer_question"),
    "bertvision.packs.card": ("PackCard",),
    "bertvision.packs.export": ("export_pack",),
    "bertvision.packs.exported": ("ExportedPack",),
    "bertvision.packs.make": ("PackResult", "make_pack"),
    "bertvision.packs.multi_task": ("MultiTask",),
    "bertvision.packs.open_pack": ("open_pack",),
    "bertvision.packs.pack": ("Pack",),
    "bertvision.packs.predict": ("Predicted", "predict_file"),
    "bertvision.packs.question_answerer": ("QuestionAnswerer",),
    "bertvision.packs.text_models": ("TextClassifier", "TextScorer"),
    "bertvision.report.write": ("ReportResult", "write_report"),
    "bertvision.runs.tuning.cross_fit": ("CrossFitResult", "tune_folds"),
    "bertvision.runs.judging.ensemble": ("EnsembleResult", "ensemble"),
    "bertvision.runs.judging.ensemble_record": ("EnsembleRecord",),
    "bertvision.runs.judging.evaluate": ("EvaluationResult", "evaluate"),
    "bertvision.runs.judging.evaluation_record": ("EvaluationRecord",),
    "bertvision.runs.fitting.fit": ("FitResult", "fit_heads"),
    "bertvision.runs.fitting.fit_request": ("FitRequest",),
    "bertvision.runs.fitting.fit_tasks": ("TasksResult", "fit_tasks"),
    "bertvision.runs.fitting.freeze_points": ("FreezeResult", "fit_snapshots"),
    "bertvision.runs.tuning.multitask": ("metrics_by_task", "multitask", "multitask_inputs"),
    "bertvision.runs.tuning.multitask_request": ("MultitaskRequest",),
    "bertvision.runs.planning.plan_fit": ("plan_fit",),
    "bertvision.runs.planning.planner": ("FitPlan",),
    "bertvision.runs.request": ("TeacherRequest", "TuneRequest"),
    "bertvision.runs.tuning.triplet_request": ("TripletRequest",),
    "bertvision.runs.tuning.triplets": ("tune_triplets",),
    "bertvision.runs.tuning.tune": ("tune",),
    "bertvision.runs.tuning.tuning": ("TuneResult",),
    "bertvision.runs.searching.glue": ("GlueRequest", "GlueResult", "run_glue"),
    "bertvision.runs.searching.search": ("SearchPlace", "SearchResult", "search"),
    "bertvision.runs.searching.search_file": ("load_space",),
    "bertvision.runs.searching.search_request": ("SearchRequest",),
    "bertvision.runs.searching.search_space": ("SearchSpace",),
    "bertvision.tasks.load": ("TASKS", "TaskData", "load_task"),
    "bertvision.tasks.own": ("OwnColumns",),
    "bertvision.tasks.task": ("Task",),
    "bertvision.tasks.tokenizer": ("TextTokenizer",),
    "bertvision.tasks.windows": ("WindowOptions", "Windows", "build_windows"),
    "bertvision.training.options": ("TuneOptions",),
    "bertvision.training.trainee": ("HeadSpec",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - each public name has its own type, declared above
    """Import a public name on first use: importing all of them would load torch, and slow down `bertvision --help`."""
    if name not in _HOME:
        raise AttributeError(f"module 'bertvision' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
