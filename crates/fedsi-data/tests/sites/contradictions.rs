//! What sites cannot agree on is refused with their names, what was found and what to do.

use std::path::Path;

use fedsi_data::site::{Agreement, SiteData, SiteDescription, SiteFederation};
use fedsi_data::{FilesSpec, PartitionKind, PartitionSpec, TaskKind};

use crate::hospitals::{SEED, admissions, at_sites, describe, partition, settings};

fn write(dir: &Path, name: &str, text: &str) -> FilesSpec {
    let train = dir.join(name);
    std::fs::write(&train, text).unwrap();
    FilesSpec { train, target: "y".to_owned(), ..FilesSpec::default() }
}

fn refusal(sites: &[SiteDescription]) -> String {
    let text = Agreement::of(sites).unwrap_err().to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

/// The refusal of Aarhus with a plain table and Turku with this one.
fn against(turku: &str, settings: impl Fn(FilesSpec) -> FilesSpec) -> String {
    let dir = tempfile::tempdir().unwrap();
    let first = write(dir.path(), "a.csv", "a,b,y\n1,2,u\n3,4,v\n5,6,u\n");
    let second = settings(write(dir.path(), "t.csv", turku));
    refusal(&[describe(&first, &partition(), 0, "Aarhus"), describe(&second, &partition(), 1, "Turku")])
}

#[test]
fn another_column_is_named() {
    let missing = against("a,y\n1,u\n2,v\n", |files| files);
    let advice =
        "give the tables of all sites the same columns, or list those that all have in data.files.columns";
    assert_eq!(
        missing,
        format!("site \"Turku\": found no column \"b\", expected one, as at site \"Aarhus\"; {advice}")
    );
    let more = against("a,b,c,y\n1,2,3,u\n2,3,4,v\n", |files| files);
    assert_eq!(
        more,
        format!(
            "site \"Turku\": found column \"c\", expected no such column, as at site \"Aarhus\"; {advice}"
        )
    );
}

#[test]
fn another_target_task_setting_or_shape_is_named() {
    let plain = "a,b,y\n1,2,u\n3,4,v\n5,6,u\n";
    let cases = [
        (
            against("a,b,y\n1,2,3\n3,4,5\n", |files| FilesSpec { task: TaskKind::Regression, ..files }),
            "numbers in column \"y\"",
        ),
        (
            against(plain, |files| FilesSpec { classes: vec!["u".into(), "v".into()], ..files }),
            "data.files.classes",
        ),
        (against(plain, |files| FilesSpec { standardize: false, ..files }), "data.files.standardize=false"),
        (against(plain, |files| FilesSpec { shape: vec![1, 1, 2], ..files }), "inputs of shape [1, 1, 2]"),
        (
            against("a,b,z\n1,2,u\n3,4,v\n", |files| FilesSpec { target: "z".into(), ..files }),
            "classes in column \"z\"",
        ),
    ];
    for (text, expected) in cases {
        assert!(
            text.starts_with("site \"Turku\": found ") && text.contains("as at site \"Aarhus\""),
            "{text}"
        );
        assert!(text.contains(expected), "{text}");
    }
    let images = SiteDescription::of_arrays(
        "Turku",
        &[2],
        fedsi_data::Task::Classification { classes: 2 },
        None,
        3,
        0,
    );
    let dir = tempfile::tempdir().unwrap();
    let first = describe(&write(dir.path(), "a.csv", plain), &partition(), 0, "Aarhus");
    let text = refusal(&[first, images.unwrap()]);
    assert!(text.contains("found arrays of numbers, expected a table, as at site \"Aarhus\""), "{text}");
}

#[test]
fn lists_of_classes_must_be_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let listed = |name: &str, classes: &[&str]| FilesSpec {
        classes: classes.iter().map(|&class| class.to_owned()).collect(),
        ..write(dir.path(), name, "a,y\n1,u\n3,v\n5,u\n")
    };
    let first = describe(&listed("a.csv", &["u", "v"]), &partition(), 0, "Aarhus");
    let second = describe(&listed("t.csv", &["v", "u"]), &partition(), 1, "Turku");
    let text = refusal(&[first, second]);
    assert!(text.contains("found the classes \"v, u\", expected the classes \"u, v\""), "{text}");
    // A row of a class that the config does not list is refused by the site that has it.
    let own = SiteDescription::of_files(&listed("x.csv", &["u"]), &partition(), SEED, 0, "Aarhus");
    let text = own.unwrap_err().to_string();
    assert!(text.contains("\"v\"") && text.contains("data.files.classes"), "{text}");
}

/// One more class at one site is a class of all, unless it turns up only after all have agreed.
#[test]
fn a_class_that_one_site_alone_has() {
    let dir = tempfile::tempdir().unwrap();
    let first = write(dir.path(), "a.csv", "a,y\n1,u\n3,v\n5,u\n");
    let second = write(dir.path(), "t.csv", "a,y\n1,t\n3,v\n5,t\n");
    let (agreement, sites) = at_sites(&["Aarhus", "Turku"], &[first, second.clone()], &partition());
    assert_eq!(agreement.class_names().unwrap(), ["t", "u", "v"]);
    assert_eq!(fedsi_data::Federation::task(&sites[0]), agreement.task());
    std::fs::write(&second.train, "a,y\n1,t\n3,w\n5,t\n").unwrap();
    let text =
        SiteFederation::open_files(&second, &partition(), SEED, &agreement, 1).err().unwrap().to_string();
    let expected = "site \"Turku\": found class \"w\", expected one of the agreed classes \"t, u, v\";";
    assert!(text.starts_with(expected), "{text}");
}

/// Test rows are drawn class by class, in their order: with texts at one site, numbers at another would be in another one.
#[test]
fn classes_whose_order_differs_must_be_listed() {
    let dir = tempfile::tempdir().unwrap();
    let numbers = write(dir.path(), "a.csv", "a,y\n1,2\n3,10\n5,2\n");
    let texts = write(dir.path(), "t.csv", "a,y\n1,none of these\n3,10\n5,2\n");
    let sites = [describe(&numbers, &partition(), 0, "Aarhus"), describe(&texts, &partition(), 1, "Turku")];
    let text = refusal(&sites);
    assert!(
        text.starts_with("site \"Aarhus\": found the classes \"2, 10\"")
            && text.contains("data.files.classes"),
        "{text}"
    );
}

#[test]
fn names_and_client_numbers_are_each_sites_own() {
    let dir = tempfile::tempdir().unwrap();
    let files = write(dir.path(), "a.csv", "a,y\n1,u\n3,v\n5,u\n");
    let own = |client, name: &str| describe(&files, &partition(), client, name);
    let text = refusal(&[own(0, "Aarhus"), own(1, "Aarhus")]);
    assert!(text.contains("site \"Aarhus\": found a second site of this name"), "{text}");
    let text = refusal(&[own(1, "Aarhus"), own(0, "Turku")]);
    assert!(
        text.contains("found rows divided as those of client 1, expected as those of client 0"),
        "{text}"
    );
    assert!(refusal(&[]).contains("the descriptions of sites: found 0 of them"), "{}", refusal(&[]));
    for name in ["", " Turku", "Tur\nku", &"x".repeat(201)] {
        let refused = SiteDescription::of_files(&files, &partition(), SEED, 0, name).unwrap_err().to_string();
        assert!(refused.contains("the site's name"), "{refused}");
    }
}

#[test]
fn a_description_without_rows_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut site = describe(&write(dir.path(), "a.csv", "a,y\n1,u\n3,v\n5,u\n"), &partition(), 0, "Aarhus");
    site.train_rows = 0;
    assert!(refusal(&[site.clone()]).contains("site \"Aarhus\": found 0 training rows"));
    site.train_rows = 7;
    assert!(refusal(&[site]).contains("found a summary of 2 rows, expected one of its 7 training rows"));
    let empty = write(dir.path(), "e.csv", "a,y\n");
    assert!(SiteDescription::of_files(&empty, &partition(), SEED, 0, "Aarhus").is_err());
}

#[test]
fn tables_of_which_no_column_can_be_an_input() {
    let dir = tempfile::tempdir().unwrap();
    let text: String = (0..30).map(|row| format!("word{row},{}\n", ["u", "v"][row % 2])).collect();
    let files = write(dir.path(), "a.csv", &format!("a,y\n{text}"));
    let text = refusal(&[describe(&files, &partition(), 0, "Aarhus")]);
    assert!(text.contains("no column that can be an input: \"a\" looks like an identifier"), "{text}");
}

#[test]
fn settings_that_deal_rows_to_clients_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let files = write(dir.path(), "a.csv", "a,who,y\n1,p,u\n3,q,v\n5,p,u\n");
    let refused = |files: &FilesSpec, partition: &PartitionSpec| {
        SiteDescription::of_files(files, partition, SEED, 0, "Aarhus").unwrap_err().to_string()
    };
    let text = refused(&FilesSpec { client: "who".into(), ..files.clone() }, &partition());
    assert!(text.starts_with("data.files.client = \"who\""), "{text}");
    for kind in [PartitionKind::Labels, PartitionKind::Dirichlet, PartitionKind::Shards, PartitionKind::File]
    {
        let text = refused(&files, &PartitionSpec { kind, ..partition() });
        assert!(text.starts_with("partition.kind = "), "{text}");
    }
    let dealt = PartitionSpec { kind: PartitionKind::Iid, train: 2, ..partition() };
    assert!(refused(&files, &dealt).starts_with("partition.train = 2"));
}

/// What changed after all have agreed is noticed when a site opens its files.
#[test]
fn files_and_settings_that_are_no_longer_those_described() {
    let (dir, table) = (tempfile::tempdir().unwrap(), admissions());
    let of = |site| FilesSpec { train: table.own(dir.path(), "own.csv", site), ..settings() };
    let (agreement, _) = at_sites(&table.names, &[of(0), of(1), of(2)], &partition());
    let refused = |files: &FilesSpec, client| {
        SiteFederation::open_files(files, &partition(), SEED, &agreement, client).err().unwrap().to_string()
    };
    let text = refused(&of(0), 3);
    assert!(text.starts_with("the client number of this site: found 3, expected 0 to 2"), "{text}");
    let text = refused(&FilesSpec { standardize: false, ..of(1) }, 1);
    assert!(text.starts_with("site \"Ghent\": found another data.files.standardize"), "{text}");
    let text = refused(&FilesSpec { target: "ward".into(), ..of(1) }, 1);
    assert!(text.contains("found the target \"ward\", expected \"outcome\", as agreed"), "{text}");
    let fewer = of(1);
    let text = std::fs::read_to_string(&fewer.train).unwrap().replace("lactate", "lactates");
    std::fs::write(&fewer.train, text).unwrap();
    let text = refused(&fewer, 1);
    assert!(text.contains("expected \"lactate\" among them, as agreed"), "{text}");
}

#[test]
fn a_table_tells_no_row() {
    let (dir, table) = (tempfile::tempdir().unwrap(), admissions());
    let files = FilesSpec { train: table.own(dir.path(), "own.csv", 0), ..settings() };
    let site = describe(&files, &partition(), 0, "Aarhus");
    let text = String::from_utf8(site.to_bytes()).unwrap();
    for (_, cells) in table.rows.iter().filter(|row| row.0 == 0) {
        assert!(!text.contains(&cells[0]), "an id: {}", cells[0]);
        assert!(!text.contains(&cells[6]), "a note: {}", cells[6]);
    }
    let SiteData::Table { summary, .. } = &site.data else { panic!("{site:?}") };
    assert_eq!(summary.rows, site.train_rows);
}
