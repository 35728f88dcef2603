use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::*;
use crate::checksum::digest;

fn digits(change: impl FnOnce(&mut PartitionSpec)) -> Result<DrawnDigits, DataError> {
    let mut spec = PartitionSpec::labels(10, 20, 80);
    change(&mut spec);
    DrawnDigits::open(&spec, 7)
}

/// Published figures rely on these images: they must be the same on every platform and in every version.
#[test]
fn images_are_pinned() {
    let mut sums = Vec::new();
    for class in 0..CLASSES {
        let train: Vec<u8> =
            (0..20).flat_map(|index| draw_digit(1, class as u64, Split::Train, class, index)).collect();
        let test: Vec<u8> =
            (0..20).flat_map(|index| draw_digit(9, u64::MAX - 1, Split::Test, class, index)).collect();
        let all = [train, test].concat();
        sums.push(digest(all.as_slice(), 1 << 20).unwrap().0);
    }
    assert_eq!(sums, PINNED);
}

const PINNED: [&str; CLASSES] = [
    "149da252cff54fa94361656f30370c9f9f51a0813e16f12b62a0ec2d106e77c6",
    "1dd9d08ecad0fa158cdc3269d673562142a24bbbf75ec09a87191fb7d37ff848",
    "693f525ad1ee66015bb067869c34ea99cc1c4f082b0d8c38c3e2ced1482244f0",
    "f8fea00e9e0435e1a00c5462b0b16f6a2e75103c43c6e271d4a24b68780d6cbd",
    "6cc22c4868e415f21ab6f78933393de20815fffb9fe9072bff4fc4360ef0af17",
    "71d3055241c220e2d06948365d774545fe60ccf87d188e3d6e792d4bb60e323a",
    "047bf00353b82af18bc940455f5c092157912007c46159777a3f758a61a848f2",
    "34b222cbdfbebf443ddfe5abed6626e9f56c0429bede05fc53f48385a7c77ca1",
    "459e88862951655e9fcb2efaac8b8686326c5afc6134370f3ed0d4ce03737471",
    "dafab706eb438ef1f11f682eadb19f493761b5d655e5e6c3178b412138fa31d7",
];

/// As many images in all as of clients of one size, 100 for each of ten classes and clients here, divided unequally.
#[test]
fn clients_may_differ_in_size() {
    let unequal = |spec: &mut PartitionSpec| {
        (spec.kind, spec.unequal, spec.concentration) = (PartitionKind::Dirichlet, true, 0.3);
    };
    let drawn = digits(unequal).unwrap();
    let sizes: Vec<[usize; 2]> =
        (0..10).map(|client| [Split::Train, Split::Test].map(|split| drawn.count(client, split))).collect();
    assert_eq!(sizes.iter().flatten().sum::<usize>(), 10 * 5 * 100);
    assert!(sizes.iter().flatten().all(|&size| size >= 10), "{sizes:?}");
    for (client, [train, test]) in sizes.iter().enumerate() {
        assert_eq!(*test, (0.8 * (train + test) as f64).round() as usize, "cut as train : test says");
        for (split, size) in [(Split::Train, *train), (Split::Test, *test)] {
            assert_eq!(drawn.label_counts(client, split).iter().sum::<usize>(), size);
        }
    }
    let largest = sizes.iter().max_by_key(|size| size[0]).unwrap();
    let smallest = sizes.iter().min_by_key(|size| size[0]).unwrap();
    assert!(largest[0] > 2 * smallest[0], "{sizes:?}");
    assert_eq!(drawn.samples(3, Split::Train).count, sizes[3][0]);
    let text = digits(|spec| spec.unequal = true).map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("partition.kind = \"dirichlet\""), "{text}");
}

#[test]
fn no_image_is_drawn_twice() {
    let mut seen = HashSet::new();
    for client in 0..4 {
        for split in [Split::Train, Split::Test] {
            for class in 0..CLASSES {
                for index in 0..50 {
                    assert!(seen.insert(draw_digit(3, client, split, class, index)));
                }
            }
        }
    }
}

#[test]
fn a_digit_is_visible_and_leaves_room() {
    for class in 0..CLASSES {
        for index in 0..200 {
            let image = draw_digit(5, 0, Split::Train, class, index);
            let ink = image.iter().filter(|&&byte| byte > 100).count();
            assert!((8..350).contains(&ink), "class {class}, image {index}: {ink} bright pixels");
        }
    }
}

#[test]
fn small_is_a_part_of_large() {
    let small = digits(|_| {}).unwrap().samples(0, Split::Train);
    let large = digits(|spec| spec.train = 200).unwrap().samples(0, Split::Train);
    assert_eq!(small.inputs[..20 * pen::PIXELS], large.inputs[..20 * pen::PIXELS]);
}

#[test]
fn every_partition_gives_what_it_counts() {
    for kind in [PartitionKind::Labels, PartitionKind::Iid, PartitionKind::Dirichlet] {
        let federation = digits(|spec| spec.kind = kind).unwrap();
        for client in [0, 1, 9] {
            for split in [Split::Train, Split::Test] {
                let samples = federation.samples(client, split);
                assert_eq!(samples.count, federation.count(client, split));
                assert_eq!(samples.inputs.len(), samples.count * pen::PIXELS);
                assert!(samples.inputs.iter().all(|value| (-1.0..=1.0).contains(value)));
                let Targets::Classes(classes) = &samples.targets else { panic!("digits have classes") };
                let mut counts = vec![0; CLASSES];
                for &class in classes {
                    counts[class as usize] += 1;
                }
                assert_eq!(counts, federation.label_counts(client, split));
            }
        }
        assert_eq!(federation.samples(10, Split::Train).count, 0, "no such client");
    }
}

#[test]
fn any_number_of_clients_is_feasible() {
    let federation = digits(|spec| spec.clients = usize::MAX).unwrap();
    assert_eq!(federation.samples(usize::MAX - 1, Split::Train).count, 100);
    assert_eq!(federation.label_counts(3, Split::Train), [0, 0, 0, 0, 0, 20, 20, 20, 20, 20]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for kind in [PartitionKind::Natural, PartitionKind::File, PartitionKind::Shards] {
        let error = digits(|spec| spec.kind = kind).err().unwrap().to_string();
        assert!(error.contains("labels, iid or dirichlet"), "{error}");
    }
    assert!(digits(|spec| spec.clients = 0).is_err());
    assert!(digits(|spec| spec.train = 0).is_err());
    assert!(digits(|spec| spec.test = usize::MAX).is_err());
    assert!(digits(|spec| spec.labels_per_client = 11).is_err());
    let nan = |spec: &mut PartitionSpec| {
        spec.kind = PartitionKind::Dirichlet;
        spec.concentration = f64::NAN;
    };
    assert!(digits(nan).is_err());
}

/// Twenty times slower than measured would still pass: this guards against an accident, not a percentage.
#[test]
fn drawing_is_fast() {
    let start = Instant::now();
    for index in 0..2_000 {
        std::hint::black_box(draw_digit(1, 0, Split::Train, index as usize % CLASSES, index));
    }
    assert!(start.elapsed() < Duration::from_secs(1), "2,000 images took {:?}", start.elapsed());
}
