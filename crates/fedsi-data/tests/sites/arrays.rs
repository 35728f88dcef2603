//! Arrays that a site's own code loaded, arrays in files, and datasets that are known by their names.

use fedsi_data::site::{AgreedData, Agreement, SiteDescription, SiteFederation};
use fedsi_data::{DataSpec, Datasets, Federation as _, FilesSpec, PartitionSpec, Size, Split, Targets, Task};

use crate::hospitals::{SEED, at_sites, partition};

const CLASSES: Task = Task::Classification { classes: 3 };

fn described(name: &str, shape: &[usize], task: Task) -> SiteDescription {
    SiteDescription::of_arrays(name, shape, task, None, 4, 1).unwrap()
}

fn agreement(task: Task) -> Agreement {
    Agreement::of(&[described("Aarhus", &[2], task), described("Turku", &[2], task)]).unwrap()
}

#[test]
fn a_site_has_the_arrays_that_it_gives() {
    let agreement = agreement(CLASSES);
    let train = (vec![1.0, 2.0, 3.0, 4.0], Targets::Classes(vec![2, 0]));
    let test = (vec![5.0, 6.0], Targets::Classes(vec![1]));
    let own = SiteFederation::of_arrays(&agreement, 1, train.clone(), test).unwrap();
    assert_eq!((own.clients(), own.client(), own.client_name(0)), (2, 1, Some("Aarhus")));
    let samples = own.samples(1, Split::Train);
    assert_eq!((samples.count, samples.inputs, samples.targets), (2, train.0, train.1));
    assert_eq!(own.label_counts(1, Split::Train), [1, 0, 1]);
    assert_eq!(own.label_counts(0, Split::Train), [0, 0, 0]);
    assert_eq!((own.count(0, Split::Train), own.count(1, Split::Test), own.count(2, Split::Test)), (0, 1, 0));
    assert_eq!(own.row_numbers(1, Split::Test), Some([2].as_slice()));
    assert!(!own.pools_rows());
    assert_eq!(agreement.data(), &AgreedData::Arrays { pixels: false });
}

#[test]
fn arrays_that_do_not_fit_are_refused() {
    let numbers = agreement(Task::Regression { outputs: 2 });
    let none = || (Vec::new(), Targets::Values(Vec::new()));
    let own =
        SiteFederation::of_arrays(&numbers, 0, (vec![1.0, 2.0], Targets::Values(vec![3.0, 4.0])), none());
    assert_eq!(own.unwrap().samples(0, Split::Train).targets, Targets::Values(vec![3.0, 4.0]));
    let refused = |agreement: &Agreement, inputs: &[f32], targets: Targets| {
        let none = match &targets {
            Targets::Classes(_) => (Vec::new(), Targets::Classes(Vec::new())),
            Targets::Values(_) => none(),
        };
        SiteFederation::of_arrays(agreement, 1, (inputs.to_vec(), targets), none).err().unwrap().to_string()
    };
    let classes = agreement(CLASSES);
    let cases = [
        (refused(&classes, &[1.0, 2.0, 3.0], Targets::Classes(vec![0])), "3 training inputs and 1 targets"),
        (refused(&classes, &[1.0, 2.0], Targets::Classes(vec![0, 1])), "2 training inputs and 2 targets"),
        (refused(&classes, &[1.0, f32::NAN], Targets::Classes(vec![0])), "NaN in training row 0"),
        (refused(&classes, &[1.0, 2.0], Targets::Classes(vec![3])), "class 3 in training row 0"),
        (refused(&classes, &[1.0, 2.0], Targets::Values(vec![0.0])), "numbers as training targets"),
        (refused(&classes, &[], Targets::Classes(Vec::new())), "no training rows"),
        (refused(&numbers, &[1.0, 2.0], Targets::Values(vec![0.0])), "2 training inputs and 1 targets"),
        (refused(&numbers, &[1.0, 2.0], Targets::Values(vec![0.0, f32::INFINITY])), "inf as the target"),
    ];
    for (text, expected) in cases {
        assert!(text.starts_with("site \"Turku\": found ") && text.contains(expected), "{text}");
    }
}

#[test]
fn shapes_and_tasks_must_be_the_same() {
    let refused = |second: SiteDescription| {
        Agreement::of(&[described("Aarhus", &[2], CLASSES), second]).unwrap_err().to_string()
    };
    let text = refused(described("Turku", &[3], CLASSES));
    assert!(
        text.contains("site \"Turku\": found inputs of shape [3], expected [2], as at site \"Aarhus\""),
        "{text}"
    );
    let text = refused(described("Turku", &[2], Task::Classification { classes: 4 }));
    assert!(text.contains("found 4 classes, expected 3 classes"), "{text}");
    let text = refused(described("Turku", &[2], Task::Regression { outputs: 1 }));
    assert!(text.contains("found 1 number to predict, expected 3 classes"), "{text}");
    let names = ["a", "b", "c"].map(str::to_owned);
    let named = SiteDescription::of_arrays("Turku", &[2], CLASSES, Some(&names), 1, 0).unwrap();
    assert!(refused(named).contains("found the classes \"a, b, c\", expected no names of classes"));
    for (shape, task) in [
        (vec![], CLASSES),
        (vec![2, 2], CLASSES),
        (vec![0], CLASSES),
        (vec![2], Task::Regression { outputs: 0 }),
    ] {
        assert!(SiteDescription::of_arrays("Turku", &shape, task, None, 1, 0).is_err(), "{shape:?} {task:?}");
    }
}

/// Images of bytes in NPY files, as the simulation reads them.
#[test]
fn arrays_in_files() {
    let dir = tempfile::tempdir().unwrap();
    let npy = |name: &str, shape: &str, data: &[u8]| {
        let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}");
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend(format!("{header:<117}\n").as_bytes());
        bytes.extend(data);
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let images: Vec<u8> = (0..80).collect();
    let train = npy("x.npy", "(20, 2, 2)", &images);
    npy("y.npy", "(20,)", &(0..20).map(|row| row % 2).collect::<Vec<u8>>());
    let files = FilesSpec {
        train,
        target: "y.npy".to_owned(),
        classes: vec!["no".to_owned(), "yes".to_owned()],
        ..FilesSpec::default()
    };
    let (agreement, sites) = at_sites(&["Aarhus", "Turku"], &[files.clone(), files.clone()], &partition());
    assert_eq!(agreement.data(), &AgreedData::Arrays { pixels: true });
    assert_eq!((agreement.input_shape(), sites[1].has_pixels()), ([1, 2, 2].as_slice(), true));
    assert_eq!([Split::Train, Split::Test].map(|split| sites[1].count(1, split)), [16, 4]);
    let text = SiteFederation::of_arrays(
        &agreement,
        0,
        (vec![0.0; 4], Targets::Classes(vec![0])),
        (vec![], Targets::Classes(vec![])),
    );
    assert!(text.err().unwrap().to_string().contains("expected images of bytes, as agreed"));

    let refused = |files: &FilesSpec| {
        SiteDescription::of_files(files, &partition(), SEED, 0, "Aarhus").unwrap_err().to_string()
    };
    let text = refused(&FilesSpec { classes: Vec::new(), ..files.clone() });
    assert!(text.starts_with("data.files.classes = []"), "{text}");
    let numbers = FilesSpec { task: fedsi_data::TaskKind::Regression, classes: Vec::new(), ..files };
    assert!(refused(&numbers).starts_with("data.files.standardize = true"));
    let unscaled = FilesSpec { standardize: false, ..numbers };
    assert_eq!(at_sites(&["Aarhus"], &[unscaled], &partition()).0.task(), Task::Regression { outputs: 1 });
}

#[test]
fn a_dataset_known_by_its_name() {
    let data = DataSpec::defaults("digits", Size::Small);
    let partition = PartitionSpec {
        clients: 3,
        ..Datasets::builtin().find("digits").unwrap().defaults(Size::Small).partition
    };
    let open = |partition: &PartitionSpec| fedsi_data::open(&data, partition, SEED).unwrap();
    let all = open(&partition);
    let sites: Vec<SiteDescription> = (0..3)
        .map(|client| {
            SiteDescription::of_named("digits", all.as_ref(), client, &format!("node {client}")).unwrap()
        })
        .collect();
    let agreement = Agreement::of(&sites).unwrap();
    assert_eq!((agreement.input_shape(), agreement.task()), (all.input_shape(), all.task()));
    let own = SiteFederation::of_named(&agreement, 1, open(&partition)).unwrap();
    assert_eq!(own.samples(1, Split::Train), all.samples(1, Split::Train));
    assert_eq!(own.samples(2, Split::Train).count, 0);
    assert_eq!(own.client_name(1), all.client_name(1));
    let more = PartitionSpec { clients: 4, ..partition };
    let text = SiteFederation::of_named(&agreement, 1, open(&more)).err().unwrap().to_string();
    assert!(
        text.contains("found data of 4 clients, expected 3, one a site; set partition.clients"),
        "{text}"
    );
    let swapped = [sites[1].clone(), sites[0].clone()];
    assert!(Agreement::of(&swapped).unwrap_err().to_string().contains("rows divided as those of client 1"));
}
