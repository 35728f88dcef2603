//! Tables of three hospitals: one file of all with a column that says whose row it is, and one file each.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use fedsi_data::site::{Agreement, SiteDescription, SiteFederation};
use fedsi_data::{DataSpec, Federation, FilesSpec, PartitionKind, PartitionSpec, Size, Split, Targets};

pub(crate) const SEED: u64 = 11;

/// A row: whose it is, and its cells.
pub(crate) type Row = (usize, Vec<String>);

/// Columns and rows of several hospitals, in one order.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) names: Vec<&'static str>,
    pub(crate) header: Vec<&'static str>,
    pub(crate) rows: Vec<Row>,
}

/// Admissions with everything that tables have: identifiers that repeat, dates, missing values, categories of which one hospital
/// alone has one, booleans, free text, classes of which one hospital lacks one, two numbers to predict, and
/// cells that cannot be read.
pub(crate) fn admissions() -> Table {
    let header =
        ["patient_id", "admitted", "age", "ward", "smoker", "lactate", "note", "outcome", "stay", "cost"];
    let mut rows = Vec::new();
    for at in 0..240_usize {
        // A hospital of many rows, one of fewer, one of few, mixed with each other.
        let site = [0, 1, 0, 2, 0, 1][at * 7 % 6];
        let number = (at * 7919 + 13) % 1009;
        let text = |value: &str| value.to_owned();
        let ward = match (site, number % 5) {
            (2, 0 | 1) => "burns",
            (_, 0..=2) => "medicine",
            _ => "surgery",
        };
        let class = ["recovered", "readmitted", "died"][if site == 1 { number % 2 } else { number % 3 }];
        rows.push((
            site,
            vec![
                format!("P{site}{:03}", number % 60),
                if number % 11 == 0 {
                    String::new()
                } else {
                    format!("2024-{:02}-{:02}", 1 + number % 12, 1 + number % 28)
                },
                if number % 13 == 0 { text("NA") } else { format!("{}", 20 + number % 70) },
                if number % 17 == 0 { String::new() } else { text(ward) },
                ["yes", "no", ""][number % 3].to_owned(),
                if at == 50 {
                    text("high")
                } else {
                    format!("{}", (number as f64) / 7.0 + site as f64 * 0.1)
                },
                format!("free text number {number} of row {at}"),
                if number % 29 == 0 { String::new() } else { text(class) },
                format!("{}", (number % 40) as f64 / 3.0),
                format!("{}", 1.7e9 + number as f64),
            ],
        ));
    }
    Table { names: vec!["Aarhus", "Ghent", "Turku"], header: header.to_vec(), rows }
}

impl Table {
    /// One table of all, with the column of hospitals in the middle.
    pub(crate) fn pooled(&self, dir: &Path, file: &str) -> PathBuf {
        let middle = self.header.len() / 2;
        let mut header: Vec<String> = self.header.iter().map(|&name| name.to_owned()).collect();
        header.insert(middle, "hospital".to_owned());
        let rows = self.rows.iter().map(|(site, cells)| {
            let mut cells = cells.clone();
            cells.insert(middle, self.names[*site].to_owned());
            cells
        });
        write(dir, file, &header, rows)
    }

    /// The rows of one hospital, in the same order.
    pub(crate) fn own(&self, dir: &Path, file: &str, site: usize) -> PathBuf {
        let header: Vec<String> = self.header.iter().map(|&name| name.to_owned()).collect();
        let rows = self.rows.iter().filter(|row| row.0 == site).map(|row| row.1.clone());
        write(dir, &format!("{}-{file}", self.names[site]), &header, rows)
    }
}

fn write(dir: &Path, file: &str, header: &[String], rows: impl Iterator<Item = Vec<String>>) -> PathBuf {
    let mut text = header.join(",");
    text.push('\n');
    for cells in rows {
        writeln!(text, "{}", cells.join(",")).unwrap();
    }
    let path = dir.join(file);
    std::fs::write(&path, text).unwrap();
    path
}

/// The settings of a federation, without files.
pub(crate) fn settings() -> FilesSpec {
    FilesSpec {
        target: "outcome".to_owned(),
        id: "patient_id".to_owned(),
        ignore: vec!["stay".to_owned(), "cost".to_owned()],
        ..FilesSpec::default()
    }
}

/// Natural clients, a fifth of each one's rows for testing.
pub(crate) fn partition() -> PartitionSpec {
    PartitionSpec { kind: PartitionKind::Natural, ..PartitionSpec::iid(1) }
}

/// What the simulation makes of one table of all hospitals.
pub(crate) fn in_process(files: FilesSpec, partition: &PartitionSpec) -> Box<dyn Federation> {
    let files = FilesSpec { client: "hospital".to_owned(), ..files };
    let data = DataSpec { files, ..DataSpec::defaults("files", Size::Small) };
    fedsi_data::open(&data, partition, SEED).unwrap()
}

/// The description of a site, as it arrives at the server.
pub(crate) fn describe(
    files: &FilesSpec,
    partition: &PartitionSpec,
    client: usize,
    name: &str,
) -> SiteDescription {
    let own = SiteDescription::of_files(files, partition, SEED, client, name).unwrap();
    let arrived = SiteDescription::from_bytes(&own.to_bytes()).unwrap();
    assert_eq!((&arrived, arrived.digest()), (&own, own.digest()));
    arrived
}

/// The agreement of sites with these files, as it arrives at each of them, and what each then opens.
pub(crate) fn at_sites(
    names: &[&str],
    files: &[FilesSpec],
    partition: &PartitionSpec,
) -> (Agreement, Vec<SiteFederation>) {
    let sites = names.iter().zip(files).enumerate();
    let described: Vec<SiteDescription> =
        sites.map(|(client, (name, files))| describe(files, partition, client, name)).collect();
    let agreement = Agreement::of(&described).unwrap();
    let arrived = Agreement::from_bytes(&agreement.to_bytes()).unwrap();
    assert_eq!((&arrived, arrived.digest()), (&agreement, agreement.digest()));
    let opened = files
        .iter()
        .enumerate()
        .map(|(client, files)| SiteFederation::open_files(files, partition, SEED, &arrived, client).unwrap())
        .collect();
    (arrived, opened)
}

/// Asserts that every site has, to the bit, what the simulation gives the client with its number.
pub(crate) fn assert_same(all: &dyn Federation, agreement: &Agreement, sites: &[SiteFederation]) {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let json = |federation: &dyn Federation| {
        let scales = (federation.input_scaling(), federation.target_scaling());
        serde_json::to_string(&(federation.table_encoding(), scales.0, scales.1)).unwrap()
    };
    assert_eq!(all.clients(), sites.len());
    assert_eq!((agreement.input_shape(), agreement.task()), (all.input_shape(), all.task()));
    assert_eq!(agreement.class_names(), all.class_names());
    assert_eq!(
        (agreement.target_scaling(), agreement.table_encoding()),
        (all.target_scaling(), all.table_encoding())
    );
    assert_eq!(agreement.input_scaling().as_ref(), all.input_scaling());
    for (client, own) in sites.iter().enumerate() {
        assert_eq!(json(own), json(all), "client {client}");
        assert_eq!((own.clients(), own.client()), (all.clients(), client));
        assert_eq!(
            (own.input_shape(), own.task(), own.class_names()),
            (all.input_shape(), all.task(), all.class_names())
        );
        assert_eq!((own.input_columns(), own.pools_rows()), (all.input_columns(), all.pools_rows()));
        assert_eq!(own.column_ranges(client), all.column_ranges(client));
        for other in 0..all.clients() {
            assert_eq!(own.client_name(other), all.client_name(other));
        }
        for split in [Split::Train, Split::Test] {
            let (found, expected) = (own.samples(client, split), all.samples(client, split));
            assert_eq!(found.count, expected.count, "client {client}, {split:?}");
            assert_eq!(bits(&found.inputs), bits(&expected.inputs), "client {client}, {split:?}");
            match (&found.targets, &expected.targets) {
                (Targets::Values(found), Targets::Values(expected)) => {
                    assert_eq!(bits(found), bits(expected));
                }
                (found, expected) => assert_eq!(found, expected),
            }
            assert_eq!(own.count(client, split), all.count(client, split));
            assert_eq!(own.label_counts(client, split), all.label_counts(client, split));
            let rows = |federation: &dyn Federation| -> Vec<_> {
                let numbers = federation.row_numbers(client, split).unwrap().to_vec();
                let of =
                    |row| (federation.row_id(row), federation.row_cells(row), federation.row_targets(row));
                numbers.into_iter().map(of).collect()
            };
            assert_eq!(rows(own), rows(all), "client {client}, {split:?}");
            for other in (0..all.clients()).filter(|&other| other != client) {
                assert_eq!((own.count(other, split), own.samples(other, split).count), (0, 0));
                assert_eq!(own.row_numbers(other, split), Some([].as_slice()));
                assert_eq!(own.label_counts(other, split).iter().sum::<usize>(), 0);
                assert_eq!(own.column_ranges(other), None);
            }
        }
    }
}
