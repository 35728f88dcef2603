use super::*;
use serde_json::json;

fn summary(more: &serde_json::Value) -> Summary {
    let mut all = json!({"method": "fedsi", "dataset": "files", "size": "small", "seed": 1, "rounds": 2,
        "clients": [], "seconds": {"train": 0, "posterior": 0, "evaluate": 0, "total": 0},
        "bytes": {"up": 0, "down": 0}, "peak_rss_bytes": null, "version": "0"});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(all).unwrap()
}

fn classification(intervals: &serde_json::Value, overconfidence: f64) -> Summary {
    let client = |id: usize| {
        json!({"id": id, "samples": 100, "accuracy": 0.8, "ece": 0.1, "mce": 0.1, "brier": 0.1, "nll": 0.1,
            "mce_1pct": 0.1})
    };
    summary(&json!({"accuracy": 0.78, "ece": 0.03, "mce": 0.7, "brier": 0.3, "nll": 0.5, "mce_1pct": 0.05,
        "ece_floor": 0.025, "ece_floor_std": 0.01, "intervals": intervals, "intervals_by": "rows",
        "overconfidence": overconfidence, "majority_accuracy": 0.7, "clients": [client(0), client(1)]}))
}

#[test]
fn words_follow_the_interval() {
    let said = |above: [f64; 2], gap: f64, ends: [f64; 2]| {
        let intervals = json!({"accuracy": [0.73, 0.82], "above_majority": above, "overconfidence": ends});
        run_verdict(&classification(&intervals, gap))
    };
    let found = said([0.02, 0.14], -0.004, [-0.05, 0.04]);
    assert_eq!(
        found[0],
        "Accuracy 78.0% (95% interval 73.0 to 82.0%), mean over 2 clients: better than always answering a client's \
         most frequent class (70.0%)."
    );
    assert!(found[1].starts_with("Calibrated: mean confidence minus accuracy is -0.4 points"), "{found:?}");
    let found = said([-0.02, 0.14], 0.03, [0.01, 0.05]);
    assert!(found[0].contains("Not shown to be better than always"), "{found:?}");
    assert!(found[0].ends_with("the difference is +8.0 points (95% interval -2.0 to +14.0)."), "{found:?}");
    assert!(found[1].starts_with("Overconfident: mean confidence minus accuracy is +3.0"), "{found:?}");
    let found = said([-0.2, -0.1], -0.01, [-0.02, -0.001]);
    assert!(found[0].contains(": worse than always"), "{found:?}");
    assert!(found[1].starts_with("Slightly underconfident"), "{found:?}");
    // 401 rows and -0.4 points: nothing to be said where the interval is wide.
    let found = said([0.02, 0.14], -0.004, [-0.06, 0.04]);
    assert!(found[1].starts_with("Too few test rows to say"), "{found:?}");
    assert_eq!(Confidence::of([-0.01, 0.01], true), Confidence::OnAverage);
}

#[test]
fn a_run_without_intervals_says_only_its_accuracy() {
    assert_eq!(run_verdict(&classification(&json!({}), 0.1)), ["Accuracy 78.0%, mean over 2 clients."]);
}

#[test]
fn a_rare_class_that_is_missed_is_named() {
    let mut all = classification(&json!({}), 0.0);
    let class = |name: &str, samples: usize, right: usize| ClassScores {
        name: name.to_owned(),
        samples,
        precision: Some(0.5),
        recall: Some(right as f64 / samples as f64),
        precision_interval: None,
        recall_interval: wilson(right, samples),
        auroc: None,
    };
    all.classes = vec![class("well", 380, 370), class("sick", 20, 5)];
    let found = run_verdict(&all);
    assert_eq!(
        found[1],
        "A class is recognised less often than the rest: sick (5.0% of test rows): recall 25.0% (95% interval \
         11.2 to 46.9%)."
    );
    // Nearly as often as the rest, or too few to say: not named.
    all.classes = vec![class("well", 380, 370), class("sick", 20, 18)];
    assert_eq!(run_verdict(&all).len(), 1);
    all.classes = vec![class("well", 380, 300), class("sick", 3, 1)];
    assert_eq!(run_verdict(&all).len(), 1);
}

fn regression(coverages: [f64; 4], rows: usize) -> Vec<String> {
    let [a, b, c, d] = coverages;
    let scores = json!({"rmse": 2.0, "mae": 1.0, "nll": 1.0, "coverage_50": a, "coverage_80": b, "coverage_90": c,
        "coverage_95": d});
    let mut all = scores.clone();
    let mut client = scores;
    client["id"] = 0.into();
    client["samples"] = rows.into();
    all["clients"] = json!([client]);
    run_verdict(&summary(&all))
}

#[test]
fn clients_are_judged_at_all_levels() {
    let client = |id: usize, coverage_95: f64| {
        json!({"id": id, "samples": 100, "rmse": 2.0, "mae": 1.0, "nll": 1.0, "coverage_50": 0.5, "coverage_80": 0.8,
            "coverage_90": 0.9, "coverage_95": coverage_95})
    };
    let said = |coverages: &[f64]| {
        let clients: Vec<_> = coverages.iter().enumerate().map(|(id, share)| client(id, *share)).collect();
        let mut all = client(0, 0.94);
        all["clients"] = json!(clients);
        run_verdict(&summary(&all))
    };
    assert_eq!(said(&[0.95, 0.93, 1.0]).len(), 2, "chance");
    assert_eq!(
        said(&[0.95, 0.80, 0.95])[2],
        "Taken alone, 1 of 3 clients have intervals that do not hold what they should: 1 (those of 95% hold 80.0% of \
         100 rows)."
    );
}

#[test]
fn regression_is_judged_at_all_levels() {
    // What was called calibrated by its 90% alone: the 50% hold 63%, the 80% 88%.
    let wide = regression([0.63, 0.88, 0.93, 0.96], 600);
    assert_eq!(wide[0], "RMSE 2.00, MAE 1.00; all test rows, in the data's unit.");
    assert!(
        wide[1].starts_with("Its intervals are too wide (underconfident): those of 50% hold 63.0%"),
        "{wide:?}"
    );
    assert!(!wide[1].contains("95% hold"), "{wide:?}");
    let narrow = regression([0.40, 0.70, 0.80, 0.90], 600);
    assert!(narrow[1].starts_with("Its intervals are too narrow (overconfident)"), "{narrow:?}");
    let both = regression([0.70, 0.80, 0.90, 0.90], 600);
    assert!(both[1].starts_with("Its intervals do not hold what they should"), "{both:?}");
    let fine = regression([0.51, 0.80, 0.90, 0.95], 2_000);
    assert!(fine[1].starts_with("Its intervals at 50, 80, 90 and 95% hold what they should"), "{fine:?}");
    // 13 of 13 inside is chance.
    let few = regression([0.5, 0.8, 1.0, 1.0], 13);
    assert!(few[1].starts_with("Too few test rows to say"), "{few:?}");
}
