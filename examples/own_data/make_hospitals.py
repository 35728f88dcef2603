#!/usr/bin/env python3
"""Writes a table made like a hospital's: admissions of five hospitals, and what comes after training.

    python3 make_hospitals.py DIR

admissions.csv   2,000 rows of five hospitals: an identifier, dates, numbers, categories, free text, missing values; the
                 outcome `died` is rare (about 5%)
arrivals.csv     60 rows of the same hospitals without outcomes, three of them with errors of units or typing
followup.csv     the outcomes of those rows, as they become known later
new_hospital.csv 120 rows of a sixth hospital, with outcomes

The standard library's generator with a fixed seed: the same bytes everywhere.
"""

import csv
import math
import random
import sys
from datetime import date, timedelta
from pathlib import Path

HOSPITALS = ["Aarhus", "Bergen", "Ghent", "Lisbon", "Turku"]
WARDS = ["medicine", "surgery", "cardiology", "intensive care"]
NOTES = ["stable on arrival", "seen by the night team, \"no pain\"", "transferred; records incomplete", "family informed"]
HEADER = ["patient_id", "hospital", "admitted", "age", "sex", "ward", "smoker", "lactate", "systolic", "creatinine",
          "notes", "outcome"]


def admission(rng, hospital, patient, age, sex):
    """One row. Hospitals differ in who comes, in what they measure and in how ill patients are."""
    site = HOSPITALS.index(hospital) if hospital in HOSPITALS else 2
    ward = rng.choices(WARDS, [6 - site % 3, 4, 2 + site % 2, 1 + site % 3])[0]
    illness = rng.gauss(0.25 * (site - 2), 1.0) + (0.8 if ward == "intensive care" else 0.0) + (age - 60) / 40
    lactate = math.exp(0.35 + 0.45 * illness + rng.gauss(0, 0.25))
    systolic = 132 - 13 * illness + rng.gauss(0, 9)
    creatinine = 85 + 22 * illness + rng.gauss(0, 14)
    smoker = rng.random() < 0.25
    risk = 1.6 * illness + 0.7 * smoker + 0.9 * (ward == "surgery") * (site - 2) / 2 + rng.gauss(0, 0.7)
    outcome = "died" if risk > 3.6 else "readmitted" if risk > 1.4 else "recovered"
    missing = lambda share, value: "" if rng.random() < share else value
    return {
        "patient_id": patient,
        "hospital": hospital,
        "admitted": (date(2023, 1, 1) + timedelta(days=rng.randrange(900))).isoformat(),
        "age": f"{age:.0f}",
        "sex": sex,
        "ward": ward,
        "smoker": missing(0.15, "yes" if smoker else "no"),
        "lactate": missing(0.08, f"{min(lactate, 15):.1f}"),
        "systolic": f"{max(systolic, 60):.0f}",
        # One hospital measures it rarely.
        "creatinine": missing(0.6 if hospital == "Lisbon" else 0.05, f"{max(creatinine, 30):.0f}"),
        "notes": f"{rng.choice(NOTES)} ({rng.randrange(10**6)})",
        "outcome": outcome,
    }


def patients(rng, hospital, count, first):
    """Rows of patients, some of whom come two or three times."""
    rows, number = [], first
    while len(rows) < count:
        patient, age, sex = f"P{number:05d}", min(max(rng.gauss(62, 16), 18), 95), rng.choice("FM")
        for _ in range(rng.choices([1, 2, 3], [7, 2, 1])[0]):
            rows.append(admission(rng, hospital, patient, age, sex))
        number += 1
    return rows[:count], number


def write(path, rows, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(folder):
    rng, number = random.Random(7), 1
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for hospital, count in zip(HOSPITALS, [700, 500, 400, 250, 150]):
        own, number = patients(rng, hospital, count, number)
        rows += own
    rng.shuffle(rows)
    write(folder / "admissions.csv", rows, HEADER)

    arrivals = []
    for hospital in HOSPITALS:
        own, number = patients(rng, hospital, 12, number)
        arrivals += own
    arrivals[3] |= {"age": "9999"}
    arrivals[17] |= {"lactate": "180"}
    arrivals[40] |= {"systolic": "0"}
    write(folder / "arrivals.csv", arrivals, HEADER[:-1])
    write(folder / "followup.csv", arrivals, HEADER)
    own, _ = patients(rng, "Oulu", 120, number)
    write(folder / "new_hospital.csv", own, HEADER)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make_hospitals.py DIR")
    main(Path(sys.argv[1]))
