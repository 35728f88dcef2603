//! Tables as people have them: delimiters, line ends, missing values, categories, groups and times.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs;

use tempfile::TempDir;

use super::*;
use crate::table::{ColumnKind, ColumnRange, SiteSummary, SummarySettings, TableEncoding};

fn open_text(text: &str, change: impl Fn(&mut FilesSpec)) -> Result<Box<dyn Federation>, DataError> {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("t.csv"), text).unwrap();
    let mut spec = FilesSpec { target: "y".into(), ..files(dir.path(), "t.csv") };
    change(&mut spec);
    open_spec(spec, PartitionKind::Iid)
}

fn rows(count: usize, row: impl Fn(usize) -> String) -> String {
    (0..count).map(|at| row(at) + "\n").collect()
}

#[test]
fn delimiters_line_ends_and_marks_are_found() {
    let comma = "a,b,y\n".to_owned() + &rows(40, |at| format!("{at}.5,\"x, {}\",{}", at % 2, at % 2));
    let expected = open_text(&comma, |_| {}).unwrap();
    let semicolons = comma.replace("\"x, 0\"", "\"x; 0\"").replace("\"x, 1\"", "\"x; 1\"").replace(',', ";");
    for text in [
        comma.replace('\n', "\r\n"),
        format!("\u{feff}{comma}"),
        semicolons.clone(),
        semicolons.replace(".5", ",5"),
        comma.replace("\"x, 0\"", "x 0").replace("\"x, 1\"", "x 1").replace(',', "\t"),
        comma.replace("\"x, 0\"", "x 0").replace("\"x, 1\"", "x 1").replace(',', "|"),
    ] {
        let found = open_text(&text, |_| {}).unwrap();
        for client in 0..2 {
            let both = [&found, &expected].map(|data| data.samples(client, Split::Train).inputs);
            assert_eq!(both[0], both[1], "{}", &text[..40]);
        }
    }
    let commas = open_text(&semicolons.replace(".5", ",5"), |_| {}).unwrap().data_summary().unwrap();
    assert!(commas.warnings.iter().any(|line| line.contains("decimal commas")), "{:?}", commas.warnings);
}

#[test]
fn lines_are_those_of_an_editor() {
    // The header is line 1; the second row of data covers lines 3 and 4.
    let text = "a,b,y\n1,x,0\n2,\"two\nlines\",1\nbad,x,0\n";
    for text in [text.to_owned(), text.replace('\n', "\r\n"), format!("\u{feff}{text}").replace('\n', "\r\n")]
    {
        let strict = open_text(&text, |spec| (spec.strict, spec.ignore) = (true, vec!["b".to_owned()]));
        let message = complaint(strict);
        assert!(message.contains("line 5, column \"a\": found \"bad\""), "{message}");
        let ragged = complaint(open_text(&(text.clone() + "1,2\n"), |_| {}));
        assert!(ragged.contains("line 6: found 2 cells"), "{ragged}");
    }
}

#[test]
fn missing_targets_and_bad_cells_are_counted_with_their_lines() {
    let text = "a,b,y\n".to_owned()
        + &rows(50, |at| match at {
            3 => "NA,red,0".to_owned(),
            7 => "abc,red,1".to_owned(),
            9 => "9,red,".to_owned(),
            _ => format!("{at},{},{}", if at % 2 == 0 { "red" } else { "blue" }, at % 3 % 2),
        });
    let federation = open_text(&text, |_| {}).unwrap();
    let summary = federation.data_summary().unwrap();
    assert_eq!(summary.rows.iter().sum::<usize>(), 49);
    assert_eq!(summary.warnings[0], "1 row is left out, no target in column \"y\": line 11");
    let cell = &summary.first_bad_cells[0];
    assert_eq!((summary.bad_cells, cell.line, cell.column.as_str(), cell.found.as_str()), (1, 9, "a", "abc"));
    assert_eq!((summary.columns[0].missing, summary.columns[0].kind), (2, ColumnKind::Number));
    assert_eq!(federation.input_columns().unwrap(), ["a", "a (missing)", "b=blue", "b=red"]);
    let rows_of = |client, split| federation.row_numbers(client, split).unwrap().to_vec();
    let all: HashSet<u32> = (0..2)
        .flat_map(|client| [rows_of(client, Split::Train), rows_of(client, Split::Test)])
        .flatten()
        .collect();
    assert!(all.len() == 49 && !all.contains(&9), "rows keep their numbers");
    // Strict: the target of line 11 comes before inputs are looked at; without that row the first missing input is refused.
    let strict = |spec: &mut FilesSpec| (spec.strict, spec.ignore) = (true, vec!["b".to_owned()]);
    let message = complaint(open_text(&text, strict));
    assert!(message.contains("line 11, column \"y\": found an empty cell"), "{message}");
    let message = complaint(open_text(&text.replace("9,red,\n", "9,red,1\n"), strict));
    assert!(message.contains("line 5, column \"a\": found \"NA\""), "{message}");
}

#[test]
fn many_numbers_are_asked_about() {
    let text = "a,y\n".to_owned() + &rows(60, |at| format!("{at},{}", at * 3));
    let message = complaint(open_text(&text, |_| {}));
    for part in ["60 different numbers in 60 rows", "data.files.task=regression", "data.files.classes"] {
        assert!(message.contains(part), "{message}");
    }
    let fractions = "a,y\n".to_owned() + &rows(60, |at| format!("{at},{}.5", at % 2));
    assert!(complaint(open_text(&fractions, |_| {})).contains("2 different numbers"));
    assert!(open_text(&fractions, |spec| spec.classes = vec!["0.5".into(), "1.5".into()]).is_ok());
    assert!(open_text(&text, |spec| spec.task = TaskKind::Regression).is_ok());
    let digits = "a,y\n".to_owned() + &rows(60, |at| format!("{at},{}", at % 10));
    assert!(open_text(&digits, |_| {}).is_ok());
    // Words and marks for what is not known do not make numbers classes, nor do decimal commas.
    let some = |every: usize| {
        let target = |at: usize| match at {
            7 => "-".to_owned(),
            _ if at.is_multiple_of(every) => "unknown".to_owned(),
            _ => (at * 3).to_string(),
        };
        "a,y\n".to_owned() + &rows(60, |at| format!("{at},{}", target(at)))
    };
    let message = complaint(open_text(&some(20), |_| {}));
    assert!(message.contains("56 different numbers in 56 of 59 rows"), "{message}");
    assert!(open_text(&some(5), |_| {}).is_ok(), "a fifth are texts");
    let commas = "a;y\n".to_owned() + &rows(60, |at| format!("{at};{},5", at * 3));
    assert!(complaint(open_text(&commas, |_| {})).contains("60 different numbers in 60 rows"));
    let grade = |at: usize| if at.is_multiple_of(12) { "fail" } else { ["1.0", "1.3", "1.7", "2.0"][at % 4] };
    let grades = "a,y\n".to_owned() + &rows(60, |at| format!("{at},{}", grade(at)));
    assert!(open_text(&grades, |_| {}).is_ok(), "few fractions beside a word");
}

#[test]
fn columns_are_chosen_by_name() {
    let text =
        "nr,a,b,c,y\n".to_owned() + &rows(40, |at| format!("r{at},{at}.5,{},{},{}", at % 3, at % 5, at % 2));
    let columns = |change: &dyn Fn(&mut FilesSpec)| {
        open_text(&text, change).map(|data| data.table_encoding().unwrap().column_names())
    };
    let list = |names: &str| names.split(',').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(columns(&|_| {}).unwrap(), ["a", "b", "c"]);
    assert_eq!(columns(&|spec| spec.ignore = list("a,c")).unwrap(), ["b"]);
    assert_eq!(columns(&|spec| spec.columns = list("c,a")).unwrap(), ["a", "c"]);
    let federation = open_text(&text, |spec| spec.id = "nr".to_owned()).unwrap();
    let row = federation.row_numbers(0, Split::Train).unwrap()[0];
    assert_eq!(federation.row_id(row), Some(format!("r{row}")));
    assert_eq!(federation.row_cells(row).unwrap()[0], format!("{row}.5"));
    assert_eq!(federation.row_targets(row).unwrap(), [(row % 2).to_string()]);
    assert_eq!(federation.row_cells(40), None);
    for (change, expected) in
        [("ignore", "a column \"z\""), ("columns", "a column \"z\""), ("id", "a column \"z\"")]
    {
        let message = complaint(columns(&|spec| match change {
            "ignore" => spec.ignore = list("z"),
            "columns" => spec.columns = list("z"),
            _ => spec.id = "z".to_owned(),
        }));
        assert!(message.contains(expected), "{message}");
    }
    let message = complaint(columns(&|spec| spec.columns = list("a,y")));
    assert!(message.starts_with("data.files.columns = \"y\""), "{message}");
    let message = complaint(columns(&|spec| spec.ignore = list("nr,a,b,c")));
    assert!(message.contains("0 features"), "{message}");
}

#[test]
fn what_tells_too_much_is_named() {
    let row = |at: usize| {
        let class = at * 7 % 10 / 5;
        format!(
            "{at},{},{},5,site{},{}",
            class * 1000 + at,
            if class == 1 { "pos" } else { "neg" },
            at % 3,
            class
        )
    };
    let text = "serial,stay,test,constant,hospital,y\n".to_owned() + &rows(100, row);
    let warnings = open_text(&text, |_| {}).unwrap().data_summary().unwrap().warnings;
    let about = |name: &str| warnings.iter().find(|line| line.starts_with(name)).cloned().unwrap_or_default();
    assert!(
        about("stay ").contains("by thresholds") && about("stay").contains("data.files.ignore=stay"),
        "{warnings:?}"
    );
    assert!(about("test ").contains("tells the class"), "{warnings:?}");
    assert!(about("constant ").contains("same value"), "{warnings:?}");
    assert!(about("hospital ").contains("data.files.client=hospital"), "{warnings:?}");
    assert!(about("serial ").contains("nearly every row"), "{warnings:?}");
    let text = "id,a,y\n".to_owned() + &rows(8, |at| format!("{at},{},{}", at * 7 % 5, at % 2));
    let warnings = open_text(&text, |_| {}).unwrap().data_summary().unwrap().warnings;
    assert!(
        warnings.iter().any(|line| line.contains("data.files.id=id")),
        "too few rows to leave it out: {warnings:?}"
    );
    let text = "a,b,y\n".to_owned() + &rows(60, |at| format!("{},{},{}.5", at * 7 % 11, at * 2, at));
    let warnings =
        open_text(&text, |spec| spec.task = TaskKind::Regression).unwrap().data_summary().unwrap().warnings;
    assert!(warnings.iter().any(|line| line.starts_with("b is the target")), "{warnings:?}");
}

#[test]
fn ranges_are_of_the_clients_own_training_rows() {
    let text = "a,c,y\n".to_owned()
        + &rows(40, |at| format!("{at},{},{}", if at % 2 == 0 { "u" } else { "v" }, at % 2));
    let federation = open_text(&text, |_| {}).unwrap();
    for client in 0..2 {
        let rows = federation.row_numbers(client, Split::Train).unwrap();
        let (min, max) = (rows.iter().min().unwrap(), rows.iter().max().unwrap());
        let ranges = federation.column_ranges(client).unwrap();
        assert_eq!(ranges[0], ColumnRange::Numbers { min: f64::from(*min), max: f64::from(*max) });
        assert_eq!(ranges[1], ColumnRange::Categories(vec!["u".to_owned(), "v".to_owned()]));
    }
    assert_eq!(federation.column_ranges(2), None);
}

#[test]
fn new_rows_are_encoded_as_training_rows_were() {
    let dir = TempDir::new().unwrap();
    let text = "a,c,who,y\n".to_owned()
        + &rows(60, |at| {
            format!(
                "{},{},k,{}",
                if at == 5 { "NA".to_owned() } else { at.to_string() },
                ["u", "v"][at % 2],
                at % 2
            )
        });
    fs::write(dir.path().join("t.csv"), &text).unwrap();
    let spec = FilesSpec { target: "y".into(), client: "who".into(), ..files(dir.path(), "t.csv") };
    let federation = open_spec(spec.clone(), PartitionKind::Natural).unwrap();
    let shape = federation.input_shape().to_vec();
    let form = InputForm { encoding: federation.table_encoding(), ..form(&spec, &shape, None) };
    let samples = federation.samples(0, Split::Train);
    let all = read_inputs(&spec.train, &form).unwrap();
    for (at, &row) in federation.row_numbers(0, Split::Train).unwrap().iter().enumerate() {
        let (width, row) = (shape[0], row as usize);
        assert_eq!(all.inputs[row * width..(row + 1) * width], samples.inputs[at * width..(at + 1) * width]);
    }
    let path = dir.path().join("new.csv");
    fs::write(&path, "extra;c;a;who\nq;new;1,5;k\nr;u;much;\n").unwrap();
    let found = read_inputs(&path, &form).unwrap();
    let table = found.table.unwrap();
    assert_eq!(table.header, ["extra", "c", "a", "who"]);
    assert_eq!(table.cells[0], ["q", "new", "1,5", "k"]);
    assert_eq!(table.used, [["1.5", "new"], ["much", "u"]]);
    assert_eq!(table.clients.unwrap(), ["k", ""]);
    assert_eq!((table.bad_cells, table.first_bad_cells[0].line), (1, 3));
    fs::write(&path, "c\nu\n").unwrap();
    let message = complaint(read_inputs(&path, &form));
    assert!(message.contains("expected a column \"a\", as in training; add it"), "{message}");
    let names = federation.class_names().map(<[String]>::to_vec);
    let wanted = TargetForm { task: federation.task(), class_names: names.as_deref(), scaling: None };
    fs::write(&path, "a,c,y\n1,u,0\n2,v,\n3,u,1\n").unwrap();
    let labelled = read_labelled(&path, None, &form, &wanted).unwrap();
    assert_eq!((labelled.samples.count, labelled.table.unwrap().left_out), (2, 1));
    assert_eq!(labelled.samples.targets, Targets::Classes(vec![0, 1]));
    let strict = FilesSpec { strict: true, ..spec.clone() };
    let form = InputForm { files: Some(&strict), ..form };
    fs::write(&path, "a,c\nmuch,u\n").unwrap();
    assert!(complaint(read_inputs(&path, &form)).contains("line 2, column \"a\": found \"much\""));
}

/// A real federation's sites send bytes; the simulation of it must come to the same encoding.
#[test]
fn bytes_of_sites_give_the_encoding_of_the_simulation() {
    let row = |at: usize| {
        let size = if at % 13 == 4 { String::new() } else { format!("{}.25", at * at % 97) };
        format!(
            "{size},{},{},{},s{},{}",
            ["u", "v", "w"][at % 3],
            at.is_multiple_of(2),
            at % 7,
            at % 4,
            at % 2
        )
    };
    let text = "size,ward,smokes,visits,site,y\n".to_owned() + &rows(120, row);
    let federation = divided(&text, |files, partition| {
        (files.client, partition.kind) = ("site".into(), PartitionKind::Natural);
    });
    let federation = federation.unwrap();
    let encoding = federation.table_encoding().unwrap();
    assert_eq!((federation.clients(), encoding.left_out.len()), (4, 0));
    let settings = SummarySettings { standardize: true, strict: false, listed: false };
    let sent = (0..4).map(|client| {
        let rows = federation.row_numbers(client, Split::Train).unwrap();
        let cells: Vec<Vec<String>> = rows.iter().map(|&row| federation.row_cells(row).unwrap()).collect();
        let cell = |row: usize, column: usize| Cow::Borrowed(cells[row][column].as_str());
        SiteSummary::of(settings, &encoding.column_names(), cells.len(), cell, Vec::new()).to_bytes()
    });
    let received: Vec<SiteSummary> = sent.map(|bytes| SiteSummary::from_bytes(&bytes).unwrap()).collect();
    assert_eq!(&TableEncoding::agree(&received).unwrap(), encoding);
}

fn divided(
    text: &str,
    change: impl Fn(&mut FilesSpec, &mut PartitionSpec),
) -> Result<Box<dyn Federation>, DataError> {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("t.csv"), text).unwrap();
    let files = FilesSpec { target: "y".into(), ..files(dir.path(), "t.csv") };
    let mut data = DataSpec { files, ..DataSpec::defaults("files", Size::Small) };
    let mut partition = PartitionSpec { clients: 3, ..PartitionSpec::iid(3) };
    change(&mut data.files, &mut partition);
    crate::open(&data, &partition, 1)
}

/// Patients with one to four visits each, at one of three sites; some visit two of them.
fn visits() -> String {
    let mut text = "patient,site,day,x,y\n".to_owned();
    for patient in 0..80 {
        for visit in 0..=patient % 4 {
            let site = if patient % 9 == 0 { visit % 3 } else { patient % 3 };
            let day = patient * 5 % 28 + 1;
            text += &format!(
                "p{patient},s{site},2024-0{}-{day:02},{},{}\n",
                visit + 1,
                patient * 3 + visit,
                patient % 2
            );
        }
    }
    text
}

#[test]
fn rows_of_one_patient_stay_together() {
    let text = visits();
    let patient: Vec<&str> = text.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    for kind in [
        PartitionKind::Iid,
        PartitionKind::Labels,
        PartitionKind::Dirichlet,
        PartitionKind::Shards,
        PartitionKind::Natural,
    ] {
        let federation = divided(&text, |files, partition| {
            (partition.kind, partition.group, partition.labels_per_client) = (kind, "patient".into(), 1);
            if kind == PartitionKind::Natural {
                files.client = "site".into();
            }
        });
        let federation = federation.unwrap();
        assert_eq!(
            federation.table_encoding().unwrap().columns.iter().filter(|c| c.name == "patient").count(),
            0
        );
        let mut owner = std::collections::HashMap::new();
        let (mut tested, mut all) = (0, 0);
        for client in 0..federation.clients() {
            for split in [Split::Train, Split::Test] {
                for &row in federation.row_numbers(client, split).unwrap() {
                    let client = if kind == PartitionKind::Natural { 0 } else { client };
                    let side = (client, split == Split::Test);
                    assert_eq!(*owner.entry(patient[row as usize]).or_insert(side), side, "{kind}");
                    all += 1;
                    tested += usize::from(split == Split::Test);
                }
            }
        }
        assert_eq!(all, patient.len(), "{kind}: every row is used");
        let share = tested as f64 / all as f64;
        assert!((0.1..0.3).contains(&share), "{kind}: {share} are tested");
    }
}

#[test]
fn the_newest_rows_are_tested() {
    let text = visits();
    let day: Vec<&str> = text.lines().skip(1).map(|line| line.split(',').nth(2).unwrap()).collect();
    for kind in [PartitionKind::Iid, PartitionKind::Natural] {
        let federation = divided(&text, |files, partition| {
            (partition.kind, partition.time) = (kind, "day".into());
            if kind == PartitionKind::Natural {
                files.client = "site".into();
            }
        });
        let federation = federation.unwrap();
        for client in 0..3 {
            let days =
                |split| federation.row_numbers(client, split).unwrap().iter().map(|&row| day[row as usize]);
            let (newest, oldest) = (days(Split::Train).max().unwrap(), days(Split::Test).min().unwrap());
            assert!(newest < oldest, "{kind}: {newest} is trained on, {oldest} tested");
            let (train, test) =
                (federation.count(client, Split::Train), federation.count(client, Split::Test));
            let share = test as f64 / (train + test) as f64;
            assert!(share <= 0.21 && share > 0.05, "{kind}: {share}");
        }
    }
}

#[test]
fn splits_that_cannot_be_had_are_refused() {
    let text = visits();
    type Change<'a> = &'a dyn Fn(&mut FilesSpec, &mut PartitionSpec);
    let cases: [(Change<'_>, &str); 6] = [
        (&|_, partition| partition.group = "person".into(), "expected a column \"person\""),
        (&|_, partition| partition.time = "when".into(), "expected a column \"when\""),
        (&|_, partition| partition.time = "site".into(), "0 of"),
        (
            &|_, partition| (partition.group, partition.time) = ("patient".into(), "day".into()),
            "partition.time = \"day\": expected \"\", as partition.group",
        ),
        (
            &|files, partition| {
                (files.test, partition.group) = (files.train.clone(), "patient".into());
            },
            "partition.group = \"patient\": expected \"\", as data.files.test",
        ),
        (
            &|_, partition| (partition.train, partition.test, partition.group) = (2, 1, "patient".into()),
            "partition.train = 2: expected 0, all rows, where partition.group",
        ),
    ];
    for (change, expected) in cases {
        let message = complaint(divided(&text, change));
        assert!(message.contains(expected), "{message}");
    }
    let digits = DataSpec::defaults("digits", Size::Small);
    let partition = PartitionSpec { group: "patient".into(), ..PartitionSpec::labels(2, 20, 80) };
    let message = complaint(crate::open(&digits, &partition, 1));
    assert!(message.contains("partition.group"), "{message}");
}
