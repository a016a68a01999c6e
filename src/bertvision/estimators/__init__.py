"""Estimators for scikit-learn's pipelines, searches and cross-validation, on all layers of a frozen encoder."""

from bertvision.estimators.features import AllLayerFeatures
from bertvision.estimators.linear import AllLayerClassifier, AllLayerRegressor

__all__ = ["AllLayerClassifier", "AllLayerFeatures", "AllLayerRegressor"]
