use std::collections::HashSet;
use std::io::Write as _;

use proptest::prelude::*;

use super::*;

pub(super) fn table(labels: &[u32], classes: usize) -> Table<'_> {
    Table {
        rows: labels.len(),
        labels: Some(labels),
        classes,
        owners: None,
        train_rows: None,
        kept: None,
        groups: None,
        times: None,
    }
}

fn spec(kind: PartitionKind) -> PartitionSpec {
    PartitionSpec { kind, ..PartitionSpec::labels(10, 50, 950) }
}

/// Ten classes, `each` rows of each, interleaved.
fn ten_classes(each: usize) -> Vec<u32> {
    (0..each * 10).map(|row| (row % 10) as u32).collect()
}

pub(super) fn counts(rows: &[u32], labels: &[u32], classes: usize) -> Vec<usize> {
    let mut counts = vec![0; classes];
    for &row in rows {
        counts[labels[row as usize] as usize] += 1;
    }
    counts
}

pub(super) fn disjoint(clients: &[ClientRows]) -> bool {
    let mut seen = HashSet::new();
    clients.iter().flat_map(|client| client.train.iter().chain(&client.test)).all(|row| seen.insert(*row))
}

#[test]
fn labels_are_the_papers() {
    let labels = ten_classes(6000);
    let spec = PartitionSpec { train: 50, test: 950, clients: 10, ..spec(PartitionKind::Labels) };
    let clients = partition(&table(&labels, 10), &spec, 1).unwrap();
    assert_eq!(clients.len(), 10);
    assert!(disjoint(&clients));
    for (number, client) in clients.iter().enumerate() {
        let held = |each: usize| {
            let first = (5 * number) % 10;
            (0..10)
                .map(|class| if (first..first + 5).contains(&class) { each } else { 0 })
                .collect::<Vec<_>>()
        };
        assert_eq!(counts(&client.train, &labels, 10), held(50));
        assert_eq!(counts(&client.test, &labels, 10), held(950));
    }
    assert_eq!(clients, partition(&table(&labels, 10), &spec, 1).unwrap());
    assert_ne!(clients, partition(&table(&labels, 10), &spec, 2).unwrap());
}

#[test]
fn labels_wrap_around_the_classes() {
    let labels = ten_classes(100);
    let spec =
        PartitionSpec { train: 5, test: 5, clients: 5, labels_per_client: 3, ..spec(PartitionKind::Labels) };
    let clients = partition(&table(&labels, 10), &spec, 1).unwrap();
    assert_eq!(counts(&clients[3].train, &labels, 10), [5, 5, 0, 0, 0, 0, 0, 0, 0, 5]);
}

#[test]
fn too_many_clients_are_refused_with_the_largest_number() {
    // Classes 0 to 4 have rows for three blocks of 20, the others for two: with k = 5, clients 0, 2 and 4 hold
    // the former, 1 and 3 the latter.
    let labels: Vec<u32> = (0..10).flat_map(|class| vec![class; if class < 5 { 60 } else { 59 }]).collect();
    for kind in [PartitionKind::Labels, PartitionKind::Iid, PartitionKind::Dirichlet, PartitionKind::Shards] {
        let spec = PartitionSpec { train: 10, test: 10, clients: 9, ..spec(kind) };
        let error = partition(&table(&labels, 10), &spec, 1).unwrap_err();
        let DataError::TooManyClients { feasible, .. } = &error else { panic!("{error}") };
        assert_eq!(*feasible, 5, "{kind}");
        assert!(error.to_string().contains("to 5"), "{error}");
        let fits = PartitionSpec { clients: *feasible, ..spec };
        assert_eq!(partition(&table(&labels, 10), &fits, 1).unwrap().len(), 5);
    }
    let huge = PartitionSpec { train: usize::MAX, clients: usize::MAX, ..spec(PartitionKind::Labels) };
    assert!(partition(&table(&labels, 10), &huge, 1).is_err());
}

#[test]
fn settings_out_of_range_are_refused() {
    let labels = ten_classes(10);
    let refused = |change: &dyn Fn(&mut PartitionSpec)| {
        let mut spec = PartitionSpec { train: 1, test: 1, clients: 2, ..spec(PartitionKind::Labels) };
        change(&mut spec);
        partition(&table(&labels, 10), &spec, 1).is_err()
    };
    assert!(!refused(&|_| {}));
    assert!(refused(&|spec| spec.clients = 0));
    assert!(refused(&|spec| spec.labels_per_client = 0));
    assert!(refused(&|spec| spec.labels_per_client = 11));
    assert!(refused(&|spec| spec.test_fraction = 1.0));
    assert!(refused(&|spec| spec.test_fraction = f64::NAN));
    assert!(refused(&|spec| spec.kind = PartitionKind::Natural));
    assert!(refused(&|spec| spec.kind = PartitionKind::File));
    assert!(refused(&|spec| (spec.kind, spec.shards_per_client) = (PartitionKind::Shards, 0)));
    let many_shards = |spec: &mut PartitionSpec, shards| {
        (spec.kind, spec.clients, spec.labels_per_client) = (PartitionKind::Shards, 50, 1);
        spec.shards_per_client = shards;
    };
    assert!(!refused(&|spec| many_shards(spec, 32)));
    assert!(refused(&|spec| many_shards(spec, 33)), "a list of shards far longer than the data");
    assert!(refused(&|spec| (spec.kind, spec.concentration) = (PartitionKind::Dirichlet, -1.0)));
    let regression = Table {
        rows: 10,
        labels: None,
        classes: 1,
        owners: None,
        train_rows: None,
        kept: None,
        groups: None,
        times: None,
    };
    assert!(partition(&regression, &spec(PartitionKind::Labels), 1).is_err());
}

#[test]
fn a_test_file_is_followed() {
    // 100 training rows and 50 test rows, classes alternating.
    let labels: Vec<u32> = (0..150).map(|row| row % 2).collect();
    let table = Table { train_rows: Some(100), ..table(&labels, 2) };
    for kind in [PartitionKind::Labels, PartitionKind::Iid, PartitionKind::Dirichlet, PartitionKind::Shards] {
        let spec = PartitionSpec { train: 0, clients: 4, labels_per_client: 1, ..spec(kind) };
        let clients = partition(&table, &spec, 1).unwrap();
        assert!(disjoint(&clients), "{kind}");
        assert!(clients.iter().all(|client| client.train.iter().all(|&row| row < 100)), "{kind}");
        assert!(clients.iter().all(|client| client.test.iter().all(|&row| row >= 100)), "{kind}");
        assert_eq!(clients.iter().map(|client| client.train.len()).sum::<usize>(), 100, "{kind}");
        assert_eq!(clients.iter().map(|client| client.test.len()).sum::<usize>(), 50, "{kind}");
        for client in &clients {
            let (train, test) = (counts(&client.train, &labels, 2), counts(&client.test, &labels, 2));
            for class in 0..2 {
                assert!(
                    (train[class] as f64 / 2.0 - test[class] as f64).abs() <= 1.0,
                    "{kind} {train:?} {test:?}"
                );
            }
        }
    }
}

#[test]
fn a_number_of_training_rows_is_refused_beside_a_test_file() {
    let labels = ten_classes(100);
    for kind in [PartitionKind::Labels, PartitionKind::Iid, PartitionKind::Dirichlet, PartitionKind::Shards] {
        let spec = PartitionSpec { train: 5, test: 5, clients: 2, ..spec(kind) };
        let with_file = Table { train_rows: Some(500), ..table(&labels, 10) };
        let error = partition(&with_file, &spec, 1).unwrap_err().to_string();
        assert!(error.contains("partition.train = 5: expected 0"), "{error}");
        assert!(error.contains("data.files.test"), "{error}");
        // Without a test file, as with the official sets of images, all rows are one pool.
        let clients = partition(&table(&labels, 10), &spec, 1).unwrap();
        assert!(clients.iter().any(|client| client.train.iter().any(|&row| row >= 500)), "{kind}");
    }
}

#[test]
fn natural_clients_keep_their_names() {
    let owners = Owners {
        names: ["anna".to_owned(), "bert".to_owned()].to_vec(),
        of_row: (0..100).map(|row| u32::from(row >= 30)).collect(),
    };
    let labels: Vec<u32> = (0..100).map(|row| row % 2).collect();
    let table = Table { owners: Some(&owners), ..table(&labels, 2) };
    let spec = PartitionSpec { test_fraction: 0.3, ..spec(PartitionKind::Natural) };
    let clients = partition(&table, &spec, 1).unwrap();
    assert_eq!(clients[0].name.as_deref(), Some("anna"));
    assert_eq!((clients[0].train.len(), clients[0].test.len()), (21, 9));
    assert_eq!((clients[1].train.len(), clients[1].test.len()), (49, 21));
    assert!(disjoint(&clients));

    let table = Table { train_rows: Some(30), ..table };
    let error = partition(&table, &spec, 1).unwrap_err().to_string();
    assert!(error.contains("client bert: no training samples"), "{error}");
}

fn assigned(text: &str) -> Result<Vec<ClientRows>, DataError> {
    assigned_beside(None, text)
}

fn assigned_beside(train_rows: Option<usize>, text: &str) -> Result<Vec<ClientRows>, DataError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let labels = ten_classes(1);
    let spec =
        PartitionSpec { path: file.path().to_path_buf(), test_fraction: 0.5, ..spec(PartitionKind::File) };
    partition(&Table { train_rows, ..table(&labels, 10) }, &spec, 1)
}

#[test]
fn a_file_trains_nobody_on_a_test_file() {
    let clients = assigned_beside(Some(8), "index,client\n8,a\n1,a\n2,a\n9,a\n").unwrap();
    assert_eq!((&clients[0].train[..], &clients[0].test[..]), (&[1, 2][..], &[8, 9][..]));
    let error = assigned_beside(Some(8), "index,client,split\n1,a,train\n8,a,train\n").unwrap_err();
    let text = "line 3, column split: found \"train\", expected test";
    assert!(error.to_string().contains(text), "{error}");
}

#[test]
fn a_file_assigns_samples() {
    let clients = assigned("index,client,split\n9,b,train\n0,a,train\n3,a,test\n").unwrap();
    let rows = |name: &str, train: &[u32], test: &[u32]| ClientRows {
        name: Some(name.to_owned()),
        train: train.to_vec(),
        test: test.to_vec(),
    };
    assert_eq!(clients, [rows("a", &[0], &[3]), rows("b", &[9], &[])]);
    let clients = assigned("client,index\n7,1\n7,2\n7,3\n7,4\n").unwrap();
    assert_eq!((clients[0].train.len(), clients[0].test.len()), (2, 2));
}

#[test]
fn a_bad_assignment_is_refused() {
    for (text, complaint) in [
        ("index,client\n10,a\n", "line 2, column index: found \"10\", expected a sample's number, 0 to 9"),
        ("index,client\n-1,a\n", "line 2"),
        ("index,client\n1,a\n1,b\n", "line 3, column index: found \"1\", expected each sample once"),
        ("index,client\n1,\n", "column client"),
        ("index,client,split\n1,a,valid\n", "expected train or test"),
        ("index,client,split\n1,a,test\n", "client a: no training samples"),
        ("index,client\n1,a,b\n", "line 2: found 3 cells, expected 2"),
        ("index\n1\n", "a column \"client\""),
        ("index,client\n", "the end of the file"),
        ("", "line 1"),
    ] {
        let error = assigned(text).unwrap_err().to_string();
        assert!(error.contains(complaint), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

fn kinds() -> impl Strategy<Value = PartitionKind> {
    prop_oneof![
        Just(PartitionKind::Labels),
        Just(PartitionKind::Iid),
        Just(PartitionKind::Dirichlet),
        Just(PartitionKind::Shards)
    ]
}

proptest! {
    /// Whatever the pool and the settings: an error, or disjoint clients of the promised size, each with something
    /// to train on, the same for the same seed.
    #[test]
    fn clients_are_disjoint_sized_and_repeatable(
        labels in prop::collection::vec(0_u32..7, 0..400),
        kind in kinds(),
        clients in 1_usize..20,
        labels_per_client in 1_usize..8,
        (train, test) in (0_usize..6, 0_usize..6),
        concentration in prop_oneof![Just(1e-6), 0.01_f64..100.0],
        shards_per_client in 1_usize..5,
        test_fraction in 0.0_f64..0.99,
        seed in any::<u64>(),
        split_at in prop::option::of(0_usize..400),
    ) {
        let train_rows = split_at.map(|at| at.min(labels.len()));
        let table = Table { train_rows, ..table(&labels, 7) };
        let spec = PartitionSpec {
            kind, clients, labels_per_client, train, test, concentration, shards_per_client, test_fraction,
            path: std::path::PathBuf::new(), group: String::new(), time: String::new(),
            unequal: false, pooled: false, pooled_client: false,
        };
        if let Ok(dealt) = partition(&table, &spec, seed) {
            prop_assert_eq!(dealt.len(), clients);
            prop_assert!(disjoint(&dealt));
            for client in &dealt {
                prop_assert!(!client.train.is_empty());
                if let Some(first) = train_rows {
                    prop_assert!(client.train.iter().all(|&row| (row as usize) < first));
                    prop_assert!(client.test.iter().all(|&row| (row as usize) >= first));
                }
                if train > 0 {
                    prop_assert_eq!(client.train.len(), train * labels_per_client);
                    prop_assert_eq!(client.test.len(), test * labels_per_client);
                    // The same mix in training and test, as nearly as whole numbers allow.
                    let (a, b) = (counts(&client.train, &labels, 7), counts(&client.test, &labels, 7));
                    let share = test as f64 / (train + test) as f64;
                    for (&a, &b) in a.iter().zip(&b) {
                        prop_assert!((b as f64 - (a + b) as f64 * share).abs() < 1.0 + 1e-9);
                    }
                }
            }
            if train == 0 && kind != PartitionKind::Labels {
                let used: usize = dealt.iter().map(|client| client.train.len() + client.test.len()).sum();
                prop_assert_eq!(used, labels.len(), "all rows are used");
            }
            prop_assert_eq!(dealt, partition(&table, &spec, seed).unwrap());
        }
    }
}
