//! Each site has, to the bit, what the simulation of one table of all sites gives its client.

use fedsi_data::{Federation as _, FilesSpec, PartitionKind, PartitionSpec, Split, Task, TaskKind};

use crate::hospitals::{Table, admissions, assert_same, at_sites, in_process, partition, settings};

/// Opens one table of all hospitals, and one of each, and compares.
fn compare(table: &Table, files: &FilesSpec, partition: &PartitionSpec) {
    let dir = tempfile::tempdir().unwrap();
    let all =
        in_process(FilesSpec { train: table.pooled(dir.path(), "all.csv"), ..files.clone() }, partition);
    let of = |site| FilesSpec { train: table.own(dir.path(), "own.csv", site), ..files.clone() };
    let own: Vec<FilesSpec> = (0..table.names.len()).map(of).collect();
    let (agreement, sites) = at_sites(&table.names, &own, partition);
    assert_same(all.as_ref(), &agreement, &sites);
}

#[test]
fn classes_categories_dates_and_missing_values() {
    compare(&admissions(), &settings(), &partition());
    // What is compared has what the test is about.
    let dir = tempfile::tempdir().unwrap();
    let table = admissions();
    let of = |site| FilesSpec { train: table.own(dir.path(), "own.csv", site), ..settings() };
    let (agreement, sites) = at_sites(&table.names, &[of(0), of(1), of(2)], &partition());
    assert_eq!(agreement.task(), Task::Classification { classes: 3 });
    let encoding = agreement.table_encoding().unwrap();
    let names = encoding.feature_names();
    for name in ["admitted", "admitted (missing)", "age", "age (missing)", "ward=burns", "smoker", "lactate"]
    {
        assert!(names.iter().any(|own| own == name), "{name} is not among {names:?}");
    }
    assert_eq!(encoding.left_out.len(), 1, "free text: {:?}", encoding.left_out);
    assert_eq!(sites[1].label_counts(1, Split::Train)[0], 0, "Ghent has no row of the class died");
    assert_eq!(agreement.client("Turku"), Some(2));
    assert_eq!(agreement.client("Oulu"), None);
}

#[test]
fn two_numbers_to_predict_standardised_or_not() {
    for standardize in [true, false] {
        let files = FilesSpec {
            target: "stay, cost".to_owned(),
            task: TaskKind::Regression,
            ignore: vec!["outcome".to_owned()],
            standardize,
            ..settings()
        };
        compare(&admissions(), &files, &partition());
    }
}

#[test]
fn whole_patients_or_the_newest_rows_for_testing() {
    let group = PartitionSpec { group: "patient_id".to_owned(), ..partition() };
    compare(&admissions(), &settings(), &group);
    let time = PartitionSpec { time: "admitted".to_owned(), ..partition() };
    compare(&admissions(), &settings(), &time);
    let none = PartitionSpec { test_fraction: 0.0, ..partition() };
    compare(&admissions(), &settings(), &none);
}

#[test]
fn listed_columns_and_classes_and_numbers_alone() {
    let table = admissions();
    let listed = FilesSpec {
        columns: ["ward", "lactate", "note"].map(str::to_owned).to_vec(),
        ignore: Vec::new(),
        classes: ["died", "recovered", "readmitted"].map(str::to_owned).to_vec(),
        ..settings()
    };
    compare(&table, &listed, &partition());
    let mut numbers = table.clone();
    numbers.rows.retain(|(_, cells)| cells[5].parse::<f64>().is_ok() && !cells[7].is_empty());
    let strict = FilesSpec {
        columns: vec!["lactate".to_owned(), "stay".to_owned()],
        ignore: Vec::new(),
        strict: true,
        standardize: false,
        shape: vec![1, 1, 2],
        ..settings()
    };
    compare(&numbers, &strict, &partition());
}

#[test]
fn classes_that_are_numbers_keep_their_order() {
    let mut table = admissions();
    for (site, cells) in &mut table.rows {
        cells[7] = match cells[7].as_str() {
            "died" => "10",
            "readmitted" => "9",
            "" => "",
            _ => ["2", "2", "100"][*site],
        }
        .to_owned();
    }
    compare(&table, &settings(), &partition());
}

#[test]
fn a_test_file_of_each_site() {
    let (dir, table) = (tempfile::tempdir().unwrap(), admissions());
    let (mut train, mut test) = (table.clone(), table);
    train.rows.truncate(180);
    test.rows.drain(..180);
    let all = in_process(
        FilesSpec {
            train: train.pooled(dir.path(), "train.csv"),
            test: test.pooled(dir.path(), "test.csv"),
            ..settings()
        },
        &partition(),
    );
    let of = |site| FilesSpec {
        train: train.own(dir.path(), "train.csv", site),
        test: test.own(dir.path(), "test.csv", site),
        ..settings()
    };
    let own = [of(0), of(1), of(2)];
    let (agreement, sites) = at_sites(&train.names, &own, &partition());
    assert_same(all.as_ref(), &agreement, &sites);
    let described = crate::hospitals::describe(&own[1], &partition(), 1, "Ghent");
    assert_eq!(described.client, None, "a test file does not depend on the client number");
}

/// Other delimiters, decimal commas and another order of columns are a site's own affair, and so is `iid`, the default kind.
#[test]
fn a_site_may_write_its_file_in_another_way() {
    let (dir, table) = (tempfile::tempdir().unwrap(), admissions());
    let all =
        in_process(FilesSpec { train: table.pooled(dir.path(), "all.csv"), ..settings() }, &partition());
    let of = |site| FilesSpec { train: table.own(dir.path(), "own.csv", site), ..settings() };
    let own = [of(0), of(1), of(2)];
    let text = std::fs::read_to_string(&own[1].train).unwrap();
    let turned: String = text
        .lines()
        .map(|line| {
            let cells: Vec<String> = line.split(',').map(|cell| cell.replace('.', ",")).collect();
            cells.into_iter().rev().collect::<Vec<_>>().join(";") + "\r\n"
        })
        .collect();
    std::fs::write(&own[1].train, turned).unwrap();
    let iid = PartitionSpec { kind: PartitionKind::Iid, ..partition() };
    let (agreement, sites) = at_sites(&table.names, &own, &iid);
    assert_eq!(sites[1].samples(1, Split::Train), all.samples(1, Split::Train));
    assert_eq!(agreement.table_encoding(), all.table_encoding());
}

/// The pages and model files of a site have what those of the simulation have.
#[test]
fn what_people_see_of_a_site_is_of_its_own_rows() {
    let (dir, table) = (tempfile::tempdir().unwrap(), admissions());
    let of = |site| FilesSpec { train: table.own(dir.path(), "own.csv", site), ..settings() };
    let (_, sites) = at_sites(&table.names, &[of(0), of(1), of(2)], &partition());
    let own = sites[2].data_summary().unwrap();
    assert_eq!(own.file, "Turku-own.csv");
    assert_eq!(own.rows, [Split::Train, Split::Test].map(|split| sites[2].count(2, split)));
    assert!(!fedsi_data::partition_digest(&sites[2]).is_empty());
}
