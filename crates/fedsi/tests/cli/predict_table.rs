//! `fedsi predict` on tables: rows traced by ids, sent to their own clients, abstaining with reasons; conformal sets; new
//! clients.

use std::fmt::Write as _;
use std::sync::OnceLock;

use crate::predict::{column, refused};
use crate::support::{Scratch, arrays};

/// A run on a table of three sites with ids, categories and missing values, made once: nobody writes into it.
fn wards() -> &'static Scratch {
    static RUN: OnceLock<Scratch> = OnceLock::new();
    RUN.get_or_init(|| {
        let scratch = Scratch::new();
        scratch.write("t.csv", ward_rows(0, 360));
        let set = [
            "data.dataset=files",
            "data.files.train=t.csv",
            "data.files.client=ward",
            "data.files.target=outcome",
            "data.files.id=patient",
        ];
        let mut all = vec!["run", "--rounds", "4", "--out", "r", "--quiet"];
        all.extend(set.iter().flat_map(|setting| ["--set", setting]));
        scratch.succeeds(&all);
        scratch
    })
}

/// Rows of that table: lactate from 0.5 to 8.4, sick above 4.
fn ward_rows(first: usize, count: usize) -> String {
    let mut text = "patient,ward,lactate,sex,outcome\n".to_owned();
    for row in first..first + count {
        let lactate = 0.5 + (row * 37 % 80) as f64 / 10.0;
        let outcome = if lactate > 4.0 { "sick" } else { "well" };
        let (ward, sex) = (["a", "b", "c"][row % 3], ["f", "m"][row % 7 % 2]);
        writeln!(text, "P{row:04},{ward},{lactate},{sex},{outcome}").unwrap();
    }
    text
}

fn ask_wards(scratch: &Scratch, more: &[&str]) -> crate::support::Ended {
    let run = wards().path("r").display().to_string();
    scratch.fedsi(&[&["predict", "--run", &run, "--input", "x.csv"], more].concat())
}

#[test]
fn test_predictions_are_traced_to_their_rows() {
    let text = wards().text("r/predictions.csv");
    assert!(
        text.starts_with("client,sample,row,id,label,class,probability,sick,well,entropy,strangeness\n"),
        "{text}"
    );
    let arrays = arrays(&wards().bytes("r/predictions.safetensors"));
    let (clients, probabilities) = (&arrays["client"].2, &arrays["probabilities"].2);
    let names = ["a", "b", "c"];
    let table = ward_rows(0, 360);
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(lines.len(), clients.len());
    for (at, line) in lines.iter().enumerate() {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells[0], names[clients[at] as usize]);
        let row: usize = cells[2].parse().unwrap();
        assert_eq!(cells[3], format!("P{row:04}"), "the id of the row");
        let original: Vec<&str> = table.lines().nth(row + 1).unwrap().split(',').collect();
        assert_eq!((cells[0], cells[4]), (original[1], original[4]));
        let sick: f64 = cells[7].parse().unwrap();
        assert!((sick - probabilities[2 * at]).abs() <= 1e-5 * sick, "{line}");
        assert!(cells[10].parse::<f64>().is_ok(), "{line}");
    }
    let summary = wards().json("r/summary.json");
    assert!(summary["files"]["predictions.csv"].is_string() && summary["files"]["data.json"].is_string());
    assert_eq!(wards().json("r/data.json")["columns"].as_array().unwrap().len(), 2);
}

/// Without --client each row goes to its own client; with it all rows go to that one, whatever their column says.
#[test]
fn rows_go_to_their_own_clients() {
    let scratch = Scratch::new();
    scratch.write("x.csv", ward_rows(1000, 9));
    let own = ask_wards(&scratch, &[]);
    assert_eq!(own.code, Some(0), "{}", own.stderr);
    assert_eq!(column(&own.stdout, "patient"), (1000..1009).map(|row| format!("P{row}")).collect::<Vec<_>>());
    let by_client = ["a", "b", "c"].map(|ward| ask_wards(&scratch, &["--client", ward]).stdout);
    for (at, ward) in column(&own.stdout, "ward").into_iter().enumerate() {
        let place = ["a", "b", "c"].iter().position(|name| *name == ward).unwrap();
        assert_eq!(own.stdout.lines().nth(at + 1), by_client[place].lines().nth(at + 1));
    }
    assert_ne!(by_client[0], by_client[1]);
    let rows = ask_wards(&scratch, &["--json"]).json();
    assert_eq!(
        (&rows["rows"][1]["client"], &rows["rows"][1]["input"]["patient"]),
        (&2.into(), &"P1001".into())
    );
    scratch.write("x.csv", ward_rows(1000, 6).replace(",b,", ",north,"));
    refused(&ask_wards(&scratch, &[]), &["`north` (2 rows)", "--client", "--fit", "(a, b, c)"]);
    assert_eq!(ask_wards(&scratch, &["--client", "b"]).code, Some(0));
    scratch.write("x.csv", "lactate,sex\n1,f\n");
    refused(
        &ask_wards(&scratch, &[]),
        &["it has no client column \"ward\"", "--client", "--fit", "(a, b, c)"],
    );
}

/// What is far outside of what a client has seen abstains with a reason, whatever its probability.
#[test]
fn absurd_rows_abstain_with_reasons() {
    let scratch = Scratch::new();
    let rows = [
        "P1,a,3.5,f",
        "P2,a,180,f",
        "P3,a,9.1,m",
        "P4,a,,f",
        "P5,a,2,x",
        "P6,a,high,m",
        "P7,a,1e300,f",
        "P8,a,,",
    ];
    scratch.write("x.csv", format!("patient,ward,lactate,sex\n{}\n", rows.join("\n")));
    let ended = ask_wards(&scratch, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let (abstain, reason) = (column(&ended.stdout, "abstain"), column(&ended.stdout, "reason"));
    for (row, expected) in [(0, "false"), (1, "true"), (2, "false"), (3, "false"), (5, "false"), (6, "true")]
    {
        assert_eq!(abstain[row], expected, "{}", ended.stdout);
    }
    assert_eq!(reason[0], "");
    assert!(reason[1].starts_with("lactate 180: training rows 0."), "{}", reason[1]);
    assert!(reason[2].starts_with("lactate 9.1: training rows"), "outside, not far: {}", reason[2]);
    assert!(ended.stdout.contains("lactate: missing, as in no training row"), "{}", ended.stdout);
    assert!(ended.stdout.contains(",true,2 of 2 values are missing"), "nothing to go by: {}", ended.stdout);
    assert!(ended.stdout.contains("sex \"\"x\"\": not among the training rows"), "{}", ended.stdout);
    assert!(ended.stdout.contains("taken as missing"), "{}", ended.stdout);
    // Nothing is too strange any more, and what is far outside abstains all the same.
    let lenient = ask_wards(&scratch, &["--max-strangeness", "1e9"]);
    assert_eq!(column(&lenient.stdout, "abstain")[1], "true");
    refused(&ask_wards(&scratch, &["--max-strangeness", "inf"]), &["--max-strangeness inf", "finite"]);
}

#[test]
fn columns_that_have_names_of_ours_are_told_apart() {
    let scratch = Scratch::new();
    scratch.write("x.csv", "class,ward,lactate,sex,sick\nmine,a,3.5,f,7\n");
    let ended = ask_wards(&scratch, &[]);
    assert!(
        ended
            .stdout
            .starts_with("class (input),ward,lactate,sex,sick,class,probability,sick probability,well,"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stderr.contains("\"sick probability\"") && ended.stderr.contains("\"class (input)\""),
        "{}",
        ended.stderr
    );
}

#[test]
fn conformal_sets_are_calibrated_on_test_rows() {
    let scratch = Scratch::new();
    scratch.write("x.csv", ward_rows(1000, 30));
    let ended = ask_wards(&scratch, &["--conformal", "0.5", "--client", "a"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("sets calibrated on") && ended.stderr.contains("marginal coverage"),
        "{}",
        ended.stderr
    );
    assert!(ended.stdout.lines().next().unwrap().ends_with(",abstain,reason,set"), "{}", ended.stdout);
    for (set, class) in column(&ended.stdout, "set").into_iter().zip(column(&ended.stdout, "class")) {
        let classes: Vec<&str> = set.split('|').collect();
        assert!(classes.contains(&class) && classes.len() <= 2, "{set} without {class}");
    }
    refused(&ask_wards(&scratch, &["--conformal", "0.99"]), &["1000 test rows are needed", "of all clients"]);
    for level in ["0.4", "1", "nan"] {
        refused(&ask_wards(&scratch, &["--conformal", level]), &["--conformal", "0.5"]);
    }
}

/// A new client: a score on rows held out, a model that is kept, and the same predictions from it.
#[test]
fn a_fitted_client_is_judged_and_kept() {
    let scratch = Scratch::new();
    scratch.write("new.csv", ward_rows(2000, 150).replace(",b,", ",north,"));
    scratch.write("few.csv", ward_rows(2000, 6));
    scratch.write("x.csv", ward_rows(3000, 12));
    let fitted = ask_wards(&scratch, &["--fit", "new.csv", "--keep", "north.safetensors"]);
    assert_eq!(fitted.code, Some(0), "{}", fitted.stderr);
    assert!(
        fitted.stderr.contains("fitted to 120 of 150 rows, on the other 30: accuracy"),
        "{}",
        fitted.stderr
    );
    assert!(fitted.stderr.contains("kept: north.safetensors"), "{}", fitted.stderr);
    for again in [["--model", "north.safetensors"], ["--client", "north.safetensors"]] {
        let ended = ask_wards(&scratch, &again);
        assert_eq!((ended.stdout, ended.stderr.as_str()), (fitted.stdout.clone(), ""), "{again:?}");
    }
    // Its own file is replaced, a foreign one is not.
    assert_eq!(ask_wards(&scratch, &["--fit", "new.csv", "--keep", "north.safetensors", "-q"]).stderr, "");
    scratch.write("mine.safetensors", "mine");
    let foreign = ask_wards(&scratch, &["--fit", "new.csv", "--keep", "mine.safetensors"]);
    refused(&foreign, &["mine.safetensors", "--force"]);
    let run = wards().path("r").display().to_string();
    for (keep, words) in [("x.csv", ".safetensors"), ("none/m.safetensors", "folder does not exist")] {
        refused(&ask_wards(&scratch, &["--fit", "new.csv", "--keep", keep]), &["--keep", words]);
    }
    let inside = format!("{run}/clients/9.safetensors");
    refused(&ask_wards(&scratch, &["--fit", "new.csv", "--keep", &inside]), &["the run's folder"]);
    // So few rows that nothing can be said.
    let few = ask_wards(&scratch, &["--fit", "few.csv"]);
    assert!(few.code == Some(0) && few.stderr.contains("too few to hold any out"), "{}", few.stderr);
    refused(&ask_wards(&scratch, &["--model", "new.csv"]), &["new.csv"]);
    refused(
        &ask_wards(&scratch, &["--model", "north.safetensors", "--conformal", "0.8"]),
        &["--conformal 0.8", "--fit"],
    );
    let sets = ask_wards(&scratch, &["--fit", "new.csv", "--conformal", "0.5"]);
    assert!(
        sets.code == Some(0)
            && sets.stderr.contains(
                "on held-out rows, which no fit has used: rows of the client itself (the new client 30)"
            ),
        "{}",
        sets.stderr
    );
    let ended = ask_wards(&scratch, &["--fit", "new.csv", "--conformal", "0.9"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("100 held-out rows are needed"), "{}", ended.stderr);
}
