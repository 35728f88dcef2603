use super::*;

fn client(id: usize, samples: usize) -> ClientScores {
    let text = format!(
        r#"{{"id": {id}, "samples": {samples}, "accuracy": 0.9, "ece": 0.1, "mce": 0.1, "brier": 0.1, "nll": 0.1,
            "mce_1pct": 0.1, "ece_floor": 0.05, "ece_floor_std": 0.05}}"#
    );
    serde_json::from_str(&text).unwrap()
}

/// Clients with so many rows and so many right, at this confidence.
fn flagged(of: &[(usize, usize)], confidence: f64) -> Vec<(usize, String)> {
    let clients: Vec<ClientScores> = of.iter().enumerate().map(|(id, (rows, _))| client(id, *rows)).collect();
    let (mut answers, mut spans) = (Vec::new(), Vec::new());
    for (client, (rows, right)) in clients.iter().zip(of) {
        spans.push((client, answers.len()..answers.len() + rows));
        answers.extend((0..*rows).map(|row| (0, confidence, row < *right)));
    }
    let spans: Vec<_> = spans.iter().collect();
    differing_classes(&spans, &answers).into_iter().map(|one| (one.id, one.reason)).collect()
}

#[test]
fn clients_are_named_only_beyond_chance() {
    // 13 of 13, and a few wrong more here and there: nothing to be said.
    assert_eq!(flagged(&[(100, 90), (100, 87), (100, 93), (13, 13)], 0.9), []);
    let found = flagged(&[(100, 90), (100, 60), (100, 93)], 0.9);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].1.starts_with("right less often than the others: 60.0% of 100 test rows"), "{found:?}");
    assert!(found[1].1.starts_with("overconfident: mean confidence 90.0%, accuracy 60.0%"), "{found:?}");
    assert!(found.iter().all(|(id, _)| *id == 1));
    // Better than the rest is no reason to look, and its confidence is too low.
    let found = flagged(&[(100, 80), (100, 80), (100, 100)], 0.8);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.starts_with("underconfident"), "{found:?}");
    // All of them alike: that is the run's verdict, and no client's.
    assert_eq!(flagged(&[(400, 360), (400, 362), (400, 358), (400, 365)], 0.8), []);
}

#[test]
fn of_many_the_surest_are_named() {
    let mut of = vec![(200, 190); 40];
    of.extend(vec![(200, 100); 9]);
    let found = flagged(&of, 0.95);
    let accuracy: Vec<_> = found.iter().filter(|(_, reason)| reason.starts_with("right less")).collect();
    assert_eq!(accuracy.len(), MAX_NAMED);
    assert!(accuracy[MAX_NAMED - 1].1.ends_with("; 4 more clients likewise"), "{accuracy:?}");
}

#[test]
fn a_client_s_words_follow_its_own_rows() {
    // 13 right answers at .99: nothing to be said of its calibration.
    let few: Vec<(usize, f64, bool)> = (0..13).map(|_| (0, 0.99, true)).collect();
    let verdict = of_classes(&client(4, 13), &few, Some(&vec![5, 1]));
    assert!(
        verdict.lines[0].starts_with("Client 4: accuracy 100.0% (95% interval 77.2 to 100.0%), 13 of 13")
    );
    assert!(
        verdict.lines[0]
            .contains("not shown to be better than always answering its most frequent class (100.0%)")
    );
    assert!(verdict.lines[1].starts_with("Too few test rows"), "{:?}", verdict.lines);
    // Half of 60 answers at .95 are wrong; the baseline gets 10 right.
    let many: Vec<(usize, f64, bool)> = (0..60).map(|row| (usize::from(row < 50), 0.95, row < 30)).collect();
    let verdict = of_classes(&client(0, 60), &many, Some(&vec![5, 1]));
    assert!(verdict.lines[0].contains("; better than always answering"), "{:?}", verdict.lines);
    assert!(verdict.lines[1].starts_with("Overconfident"), "{:?}", verdict.lines);
    assert_eq!(verdict.tiles.len(), 4);
}

#[test]
fn regression_clients_are_compared_at_all_levels() {
    let of = |id: usize, coverage: [f64; 4]| -> ClientScores {
        let [a, b, c, d] = coverage;
        let text = format!(
            r#"{{"id": {id}, "samples": 60, "rmse": 1.0, "mae": 1.0, "nll": 1.0, "coverage_50": {a}, "coverage_80": {b},
                "coverage_90": {c}, "coverage_95": {d}}}"#
        );
        serde_json::from_str(&text).unwrap()
    };
    let clients =
        [of(0, [0.5, 0.8, 0.9, 0.95]), of(1, [0.45, 0.7, 0.75, 0.75]), of(2, [0.5, 0.8, 0.95, 1.0])];
    let spans: Vec<(&ClientScores, Range<usize>)> =
        clients.iter().enumerate().map(|(place, client)| (client, place * 60..(place + 1) * 60)).collect();
    let spans: Vec<_> = spans.iter().collect();
    // The last client's errors are twice as large.
    let errors: Vec<f64> =
        (0..180).map(|row| f64::from(row % 60) * if row < 120 { 1.0 } else { 2.0 }).collect();
    let found = differing_values(&spans, &errors);
    assert_eq!(found.iter().map(|one| one.id).collect::<Vec<_>>(), [2, 1]);
    assert!(found[0].reason.starts_with("larger errors"), "{}", found[0].reason);
    assert!(
        found[1].reason.starts_with("its 95% intervals hold 75.0% of 60 test rows"),
        "{}",
        found[1].reason
    );
    assert!(found[1].reason.ends_with("too narrow"));
    let verdict = of_values(&clients[1]);
    assert!(verdict.lines[1].starts_with("Its intervals are too narrow"), "{:?}", verdict.lines);
}
