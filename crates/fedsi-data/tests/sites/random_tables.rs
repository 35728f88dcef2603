//! The same for tables drawn at random.

use fedsi_data::{FilesSpec, PartitionSpec};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::hospitals::{Table, assert_same, at_sites, in_process, partition};

fn cell() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => (-50_i32..50).prop_map(|number| number.to_string()),
        1 => (-1e3_f64..1e3).prop_map(|number| number.to_string()),
        2 => prop::sample::select(vec!["red", "green", "blue", "yes", "no"]).prop_map(str::to_owned),
        1 => Just(String::new()),
        1 => (1_u32..29).prop_map(|day| format!("2023-05-{day:02}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sites_and_simulation_agree_to_the_bit(
        rows in vec((0_usize..3, vec(cell(), 3), prop::sample::select(vec!["a", "b", "c", "d"])), 30..90),
        mixed in any::<bool>(),
        fraction in 0.0_f64..0.6,
        standardize in any::<bool>(),
    ) {
        // Columns of one kind, or cells of every kind in all of them; everybody has some rows.
        let table = Table {
            names: vec!["0", "1", "2"],
            header: vec!["key", "x", "y", "z", "outcome"],
            rows: rows.into_iter().enumerate().map(|(at, (site, mut cells, class))| {
                let site = if at < 9 { at % 3 } else { site };
                if !mixed {
                    cells[0] = format!("{}", at % 7);
                    cells[1] = ["u", "v", ""][at % 3].to_owned();
                }
                cells.insert(0, format!("k{at}"));
                cells.push(class.to_owned());
                (site, cells)
            }).collect(),
        };
        let dir = tempfile::tempdir().unwrap();
        let files = FilesSpec {
            target: "outcome".to_owned(),
            id: "key".to_owned(),
            standardize,
            columns: ["x", "y", "z"].map(str::to_owned).to_vec(),
            ..FilesSpec::default()
        };
        let partition = PartitionSpec { test_fraction: fraction, ..partition() };
        let all = in_process(FilesSpec { train: table.pooled(dir.path(), "all.csv"), ..files.clone() }, &partition);
        let of = |site| FilesSpec { train: table.own(dir.path(), "own.csv", site), ..files.clone() };
        let (agreement, sites) = at_sites(&table.names, &[of(0), of(1), of(2)], &partition);
        assert_same(all.as_ref(), &agreement, &sites);
    }
}
