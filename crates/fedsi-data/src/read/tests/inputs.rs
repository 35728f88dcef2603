//! Inputs and labelled samples that come after training.

use std::fs;

use png::{BitDepth, ColorType, Encoder};
use tempfile::TempDir;

use super::arrays::npy;
use super::*;
use crate::scale::byte_to_unit;

/// What a network takes that was trained on MNIST, but for its size.
fn images(shape: &'static [usize]) -> InputForm<'static> {
    InputForm { files: None, shape, columns: None, encoding: None, pixels: true, scaling: None }
}

fn names_of(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn png(colour: ColorType, depth: BitDepth, size: (u32, u32), data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, size.0, size.1);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(data).unwrap();
    writer.finish().unwrap();
    bytes
}

#[test]
fn images_are_converted_to_the_networks_channels() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.png");
    let (grey, colour) = (images(&[1, 1, 2]), images(&[3, 1, 2]));
    let unit = |bytes: &[u8]| bytes.iter().copied().map(byte_to_unit).collect::<Vec<_>>();
    for (kind, depth, data, as_grey, as_colour) in [
        (ColorType::Grayscale, BitDepth::Eight, vec![7, 250], vec![7, 250], vec![7, 250, 7, 250, 7, 250]),
        (
            ColorType::GrayscaleAlpha,
            BitDepth::Eight,
            vec![7, 0, 250, 9],
            vec![7, 250],
            vec![7, 250, 7, 250, 7, 250],
        ),
        // A palette of bits: 0 and 1 become black and white.
        (ColorType::Grayscale, BitDepth::One, vec![0b0100_0000], vec![0, 255], vec![0, 255, 0, 255, 0, 255]),
        (
            ColorType::Grayscale,
            BitDepth::Sixteen,
            vec![7, 99, 250, 1],
            vec![7, 250],
            vec![7, 250, 7, 250, 7, 250],
        ),
        // 0.299 * 255 = 76.2, 0.587 * 100 + 0.114 * 10 = 59.8
        (
            ColorType::Rgb,
            BitDepth::Eight,
            vec![255, 0, 0, 0, 100, 10],
            vec![76, 60],
            vec![255, 0, 0, 100, 0, 10],
        ),
        (
            ColorType::Rgba,
            BitDepth::Eight,
            vec![255, 0, 0, 0, 0, 100, 10, 255],
            vec![76, 60],
            vec![255, 0, 0, 100, 0, 10],
        ),
    ] {
        fs::write(&path, png(kind, depth, (2, 1), &data)).unwrap();
        assert_eq!(read_inputs(&path, &grey).unwrap().inputs, unit(&as_grey), "{kind:?} {depth:?}");
        assert_eq!(read_inputs(&path, &colour).unwrap().inputs, unit(&as_colour), "{kind:?} {depth:?}");
    }
    let files = FilesSpec::default();
    assert!(
        complaint(read_inputs(&path, &form(&files, &[2], None))).contains("found an image, expected numbers")
    );
}

#[test]
fn a_folder_of_images_is_read_by_name() {
    let dir = TempDir::new().unwrap();
    let form = images(&[1, 1, 1]);
    assert!(complaint(read_inputs(dir.path(), &form)).contains("found no image"));
    for (name, shade) in [("b.png", 255), ("a.PNG", 0), ("c.png", 255)] {
        fs::write(dir.path().join(name), png(ColorType::Grayscale, BitDepth::Eight, (1, 1), &[shade]))
            .unwrap();
    }
    fs::write(dir.path().join("notes.txt"), "no image").unwrap();
    let rows = read_inputs(dir.path(), &form).unwrap();
    assert_eq!(rows.names.unwrap(), ["a.PNG", "b.png", "c.png"]);
    assert_eq!((rows.count, rows.inputs), (3, vec![-1.0, 1.0, 1.0]));
}

#[test]
fn other_sizes_and_damage_are_named() {
    let dir = TempDir::new().unwrap();
    let form = images(&[1, 2, 2]);
    let whole = png(ColorType::Grayscale, BitDepth::Eight, (3, 2), &[0; 6]);
    let path = dir.path().join("a.png");
    fs::write(&path, &whole).unwrap();
    assert!(complaint(read_inputs(&path, &form)).contains("found 3 x 2 pixels, expected 2 x 2"));
    let good = png(ColorType::Grayscale, BitDepth::Eight, (2, 2), &[1, 2, 3, 4]);
    assert_eq!(read_inputs(&path, &images(&[1, 2, 3])).unwrap().count, 1);
    for end in 0..good.len() {
        fs::write(&path, &good[..end]).unwrap();
        // The end mark alone may be missing; nothing else.
        match read_inputs(&path, &form) {
            Ok(rows) => {
                assert!(end + 12 >= good.len() && rows.inputs.len() == 4, "cut to {end} of {}", good.len());
            }
            Err(error) => assert!(error.to_string().contains("the image"), "{error}"),
        }
    }
    for at in 0..good.len() {
        let mut flipped = good.clone();
        flipped[at] ^= 0x41;
        fs::write(&path, flipped).unwrap();
        let _ = read_inputs(&path, &form).map_err(|error| assert!(!error.to_string().contains('\n')));
    }
}

#[test]
fn arrays_of_images_are_bytes_shades_or_scaled() {
    let dir = TempDir::new().unwrap();
    let form = images(&[1, 1, 3]);
    let path = dir.path().join("x.npy");
    let expected: Vec<f32> = [0, 128, 255].map(byte_to_unit).to_vec();
    let singles = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    let whole = [0_i32, 128, 255].map(i32::to_le_bytes).concat();
    for (shape, rows) in [("(1, 3)", 1), ("(3,)", 1), ("(1, 1, 3)", 1), ("(1, 1, 1, 3)", 1), ("(1, 3, 1)", 1)]
    {
        for (kind, data) in [("|u1", vec![0, 128, 255]), ("<i4", whole.clone()), ("<f4", singles(&expected))]
        {
            fs::write(&path, npy(kind, shape, &data)).unwrap();
            let read = read_inputs(&path, &form).unwrap();
            assert_eq!((read.count, read.inputs), (rows, expected.clone()), "{kind} {shape}");
        }
    }
    for (kind, shape, data, wrong) in [
        (
            "<f4",
            "(1, 3)",
            singles(&[0.0, 200.0, 0.0]),
            "row 0, number 1: found 200, expected floats scaled to [-1, 1]",
        ),
        (
            "<i4",
            "(3,)",
            [0_i32, 256, 0].map(i32::to_le_bytes).concat(),
            "found 256, expected shades from 0 to 255",
        ),
        ("<f4", "(3,)", singles(&[0.0, f32::NAN, 0.0]), "number 1: found NaN"),
        ("|u1", "(0, 3)", vec![], "an array of shape [0, 3]"),
        (
            "|u1",
            "(2, 2)",
            vec![0; 4],
            "an array of shape [2, 2], expected at least one row of shape [1, 1, 3]",
        ),
    ] {
        fs::write(&path, npy(kind, shape, &data)).unwrap();
        let text = complaint(read_inputs(&path, &form));
        assert!(text.contains(wrong), "{text}");
    }
    // Channels last are another image.
    let colour = images(&[3, 2, 2]);
    fs::write(&path, npy("|u1", "(5, 2, 2, 3)", &[0; 60])).unwrap();
    assert!(complaint(read_inputs(&path, &colour)).contains("[5, 2, 2, 3]"));
    fs::write(&path, npy("|u1", "(5, 3, 2, 2)", &[0; 60])).unwrap();
    assert_eq!(read_inputs(&path, &colour).unwrap().count, 5);
}

#[test]
fn columns_go_by_their_names() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("t.csv");
    let files = FilesSpec { target: "sick".into(), client: "site".into(), ..FilesSpec::default() };
    let names = ["age".to_owned(), "weight".to_owned()];
    let form = InputForm { columns: Some(&names), ..form(&files, &[2], None) };
    fs::write(&path, "sick,weight,site,age\nyes,2,a,1\nno,4,b,3\n").unwrap();
    assert_eq!(read_inputs(&path, &form).unwrap().inputs, [1.0, 2.0, 3.0, 4.0]);
    for (text, wrong) in [
        ("weight\n1\n", "expected a column \"age\""),
        ("age,weight\n1,\n", "line 2, column \"weight\""),
        ("age,weight\n1,inf\n", "found \"inf\", expected a finite number"),
        ("age,weight\n", "found the end of the file"),
    ] {
        fs::write(&path, text).unwrap();
        let text = complaint(read_inputs(&path, &form));
        assert!(text.contains(wrong), "{text}");
    }
    fs::write(&path, "height,age,weight\n3,1,2\n").unwrap();
    let rows = read_inputs(&path, &form).unwrap();
    assert_eq!(rows.inputs, [1.0, 2.0], "other columns stand beside");
    let table = rows.table.unwrap();
    assert_eq!(
        (table.header, table.cells),
        (names_of(&["height", "age", "weight"]), vec![names_of(&["3", "1", "2"])])
    );
    // Without names: as many columns, and a header all the same.
    let nameless = InputForm { columns: None, ..form };
    for (text, wrong) in
        [("0.5,0.2\n0.1,0.3\n", "found numbers, expected a header"), ("a,b,c\n1,2,3\n", "3 columns")]
    {
        fs::write(&path, text).unwrap();
        let text = complaint(read_inputs(&path, &nameless));
        assert!(text.contains(wrong), "{text}");
    }
    fs::write(&path, "0,1\n5,6\n").unwrap();
    assert_eq!(read_inputs(&path, &nameless).unwrap().inputs, [5.0, 6.0]);
    let other = dir.path().join("t.txt");
    fs::write(&other, "0,1\n").unwrap();
    assert!(
        complaint(read_inputs(&other, &nameless)).contains("found t.txt, expected a .csv, .parquet, .npy")
    );
    assert!(complaint(read_inputs(&dir.path().join("none.txt"), &nameless)).contains("cannot read"));
}

#[test]
fn labels_are_known_classes() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("t.csv");
    let names = ["no".to_owned(), "yes".to_owned()];
    let files = FilesSpec { target: "sick".into(), ..FilesSpec::default() };
    let inputs = form(&files, &[1], None);
    let task = Task::Classification { classes: 2 };
    let wanted = TargetForm { task, class_names: Some(&names), scaling: None };
    fs::write(&path, "age,sick\n1,yes\n2,no\n").unwrap();
    let samples = read_labelled(&path, None, &inputs, &wanted).unwrap().samples;
    assert_eq!(
        (samples.count, samples.inputs, samples.targets),
        (2, vec![1.0, 2.0], Targets::Classes(vec![1, 0]))
    );
    fs::write(&path, "age,sick\n1,yes\n2,1\n").unwrap();
    let text = complaint(read_labelled(&path, None, &inputs, &wanted));
    assert!(text.contains("line 3, column \"sick\": found \"1\", expected one of \"no, yes\""), "{text}");
    // A known dataset's classes have numbers as well as names.
    let known = InputForm { files: None, pixels: true, ..inputs };
    fs::write(&path, "age,label\n1,yes\n2,0\n").unwrap();
    assert_eq!(
        read_labelled(&path, None, &known, &wanted).unwrap().samples.targets,
        Targets::Classes(vec![1, 0])
    );

    let (x, y) = (dir.path().join("x.npy"), dir.path().join("y.npy"));
    fs::write(&x, npy("<f4", "(2, 1)", &[0; 8])).unwrap();
    fs::write(&y, npy("|u1", "(2,)", &[1, 0])).unwrap();
    assert_eq!(
        read_labelled(&x, Some(&y), &inputs, &wanted).unwrap().samples.targets,
        Targets::Classes(vec![1, 0])
    );
    assert!(complaint(read_labelled(&x, None, &inputs, &wanted)).contains("a second .npy file"));
    assert!(
        complaint(read_labelled(&path, Some(&y), &inputs, &wanted)).contains("leave the second file out")
    );
    fs::write(&y, npy("|u1", "(2,)", &[1, 2])).unwrap();
    let text = complaint(read_labelled(&x, Some(&y), &inputs, &wanted));
    assert!(text.contains("row 1: found 2, expected a class from 0 to 1"), "{text}");
    fs::write(&y, npy("|u1", "(3,)", &[1, 0, 0])).unwrap();
    assert!(complaint(read_labelled(&x, Some(&y), &inputs, &wanted)).contains("found 3 rows, expected 2"));
}

#[test]
fn values_are_scaled_as_in_training() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("t.csv");
    fs::write(&path, "b,age,a\n30,1,5\n10,2,7\n").unwrap();
    let files = FilesSpec { target: "a, b".into(), task: TaskKind::Regression, ..FilesSpec::default() };
    let scaling = Scaling { mean: vec![6.0, 20.0], std: vec![1.0, 10.0] };
    let wanted =
        TargetForm { task: Task::Regression { outputs: 2 }, class_names: None, scaling: Some(&scaling) };
    let samples = read_labelled(&path, None, &form(&files, &[1], None), &wanted).unwrap().samples;
    assert_eq!(samples.targets, Targets::Values(vec![-1.0, 1.0, 1.0, -1.0]));
    assert_eq!(samples.inputs, [1.0, 2.0]);
}
