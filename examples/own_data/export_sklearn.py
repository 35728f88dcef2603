#!/usr/bin/env python3
"""Writes two small real tables that scikit-learn carries, as CSV.

    python3 -m venv .venv && .venv/bin/pip install scikit-learn
    .venv/bin/python export_sklearn.py DIR

breast_cancer.csv  569 tumours, 30 measurements, benign or malignant (Wolberg, Street and Mangasarian, 1995)
diabetes.csv       442 patients, 10 measurements, the disease's progression after a year (Efron et al., 2004)
"""

import csv
import sys
from pathlib import Path

from sklearn.datasets import load_breast_cancer, load_diabetes


def write(path, columns, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    cancer = load_breast_cancer()
    names = [cancer.target_names[label] for label in cancer.target]
    rows = [[*row, name] for row, name in zip(cancer.data.tolist(), names)]
    write(folder / "breast_cancer.csv", [*cancer.feature_names, "diagnosis"], rows)
    diabetes = load_diabetes(scaled=False)
    rows = [[*row, value] for row, value in zip(diabetes.data.tolist(), diabetes.target.tolist())]
    write(folder / "diabetes.csv", [*diabetes.feature_names, "progression"], rows)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: export_sklearn.py DIR")
    main(Path(sys.argv[1]))
