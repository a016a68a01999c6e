"""Estimators: all layers of a frozen encoder for scikit-learn's pipelines, searches and cross-validation."""

from bertvision.estimators.features import AllLayerFeatures
from bertvision.estimators.linear import AllLayerClassifier, AllLayerRegressor

__all__ = ["AllLayerClassifier", "AllLayerFeatures", "AllLayerRegressor"]
