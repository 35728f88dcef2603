//! `report_data.safetensors`, written and read.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::samples::LONGEST_SIDE;
use super::{ForeignEntropies, ReportData, Sample, SampleKind, Selection, SelectionMap, TensorSelection};
use crate::files::{Readers, WriteError, write_failed, write_for};
use crate::tensor_file::{NamedTensor, TensorFile, TensorFileError, tensor_bytes};

/// The file's name.
pub const REPORT_DATA: &str = "report_data.safetensors";

/// The name that 0.1 gave it.
pub const REPORT_DATA_0_1: &str = "exhibits.safetensors";

/// The format that is written; 0.1 used the same under its own name.
const FORMAT: &str = "fedsi-report-data-1";
const FORMAT_0_1: &str = "fedsi-exhibits-1";

/// What a count may be at most: their sums stay far from what 64 bits hold.
const MOST_SAMPLES: usize = u32::MAX as usize;

/// What is no array.
#[derive(Debug, Serialize, Deserialize)]
struct ReportMetadata {
    format: String,
    classes: Vec<String>,
    image: Option<[usize; 3]>,
    selection: Option<SelectionMetadata>,
    /// The columns of samples' cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    columns: Vec<String>,
    /// A list a sample, where there are columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cells: Vec<Vec<String>>,
    /// One a sample, where any has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ids: Vec<Option<String>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SelectionMetadata {
    clients: usize,
    tensors: Vec<TensorSelection>,
}

/// Writes the file; equal data gives equal bytes.
///
/// # Errors
/// What the system says, with the path.
pub fn write_report_data(path: &Path, data: &ReportData) -> Result<(), WriteError> {
    let ReportData { classes, train, test, image, columns, samples, foreign, selection } = data;
    let table = |name: &str, rows: &[Vec<usize>]| {
        let shape = vec![rows.len(), rows.first().map_or(0, Vec::len)];
        NamedTensor::i64(name, rows.iter().flatten().map(|&count| count as i64)).shaped(shape)
    };
    let column = |name: &str, of: fn(&Sample) -> i64| NamedTensor::i64(name, samples.iter().map(of));
    let probabilities: Vec<f32> = samples.iter().flat_map(|one| one.probabilities.iter().copied()).collect();
    let owners = foreign.iter().flat_map(|one| one.entropies.iter().map(|_| one.client as i64));
    let entropies: Vec<f32> = foreign.iter().flat_map(|one| one.entropies.iter().copied()).collect();
    let mut tensors = vec![
        table("partition.train", train),
        table("partition.test", test),
        column("samples.client", |one| one.client as i64),
        column("samples.index", |one| one.index as i64),
        column("samples.label", |one| one.label as i64),
        column("samples.kind", |one| i64::from(one.kind == SampleKind::ConfidentlyWrong)),
        NamedTensor::f32("samples.probabilities", vec![samples.len(), classes.len()], &probabilities),
        NamedTensor::i64("foreign.client", owners),
        NamedTensor::f32("foreign.entropy", vec![entropies.len()], &entropies),
    ];
    if samples.iter().any(|one| one.strangeness.is_some()) {
        let scores: Vec<f32> = samples.iter().map(|one| one.strangeness.unwrap_or(f32::NAN)).collect();
        tensors.push(NamedTensor::f32("samples.strangeness", vec![scores.len()], &scores));
    }
    let rows: Option<Vec<i64>> = samples.iter().map(|one| one.row.map(|row| row as i64)).collect();
    if let Some(rows) = rows.filter(|rows| !rows.is_empty()) {
        tensors.push(NamedTensor::i64("samples.row", rows.into_iter()));
    }
    if let Some([channels, height, width]) = *image {
        let pixels = samples.iter().flat_map(|one| one.pixels.iter().copied()).collect();
        tensors.push(NamedTensor::u8("samples.images", vec![samples.len(), channels, height, width], pixels));
    }
    if let Some(SelectionMap { height, width, shares }) =
        selection.as_ref().and_then(|found| found.map.as_ref())
    {
        tensors.push(NamedTensor::f64("selection.map", vec![*height, *width], shares));
    }
    let selection = selection.as_ref();
    let about = ReportMetadata {
        format: FORMAT.to_owned(),
        classes: classes.clone(),
        image: *image,
        selection: selection
            .map(|found| SelectionMetadata { clients: found.clients, tensors: found.tensors.clone() }),
        columns: columns.clone(),
        cells: match columns.is_empty() {
            true => Vec::new(),
            false => samples.iter().map(|one| one.cells.clone()).collect(),
        },
        ids: match samples.iter().any(|one| one.id.is_some()) {
            true => samples.iter().map(|one| one.id.clone()).collect(),
            false => Vec::new(),
        },
    };
    let about = serde_json::to_value(about).map_err(|error| write_failed(path)(error.into()))?;
    // Values of single rows of a table are their owner's.
    let readers = if columns.is_empty() { Readers::Umask } else { Readers::Owner };
    let bytes = tensor_bytes(&tensors, Some(&about))
        .map_err(|error| write_failed(path)(std::io::Error::other(error)))?;
    write_for(readers, path, &bytes)
}

/// Reads the file's bytes.
///
/// # Errors
/// Bytes that are no such file.
pub fn read_report_data(bytes: &[u8]) -> Result<ReportData, TensorFileError> {
    let file = TensorFile::parse(bytes)?;
    let about: ReportMetadata = file.entry()?;
    if about.format != FORMAT && about.format != FORMAT_0_1 {
        return Err(TensorFileError::OtherFormat { found: about.format, expected: FORMAT });
    }
    let whole = |name: &str| file.indices::<usize>(name);
    let classes = about.classes.len();
    let rows = |name: &str| -> Result<Vec<Vec<usize>>, TensorFileError> {
        let width = file.shape(name)?.last().copied().unwrap_or(0);
        let counts = whole(name)?;
        if !counts.is_empty() && width != classes.max(1) {
            return Err(TensorFileError::invalid(name, "has not a column a class"));
        }
        if counts.iter().any(|&count| count > MOST_SAMPLES) {
            return Err(TensorFileError::invalid(name, "counts more samples than there can be"));
        }
        Ok(counts.chunks(width.max(1)).map(<[usize]>::to_vec).collect())
    };
    let [clients, indices, labels, kinds] =
        ["samples.client", "samples.index", "samples.label", "samples.kind"].map(whole);
    let (clients, indices, labels, kinds) = (clients?, indices?, labels?, kinds?);
    let probabilities = file.f32("samples.probabilities")?;
    let image_size = |[channels, height, width]: [usize; 3]| match channels {
        1 | 3 if (1..=LONGEST_SIDE).contains(&height) && (1..=LONGEST_SIDE).contains(&width) => {
            Ok(channels * height * width)
        }
        _ => {
            Err(TensorFileError::invalid("samples.images", "has no shape of small images, grey or coloured"))
        }
    };
    let size = about.image.map(image_size).transpose()?.unwrap_or(0);
    let images = if size > 0 { file.u8("samples.images")? } else { &[] };
    let count = clients.len();
    let strangeness = match file.has("samples.strangeness") {
        true => file.f32("samples.strangeness")?,
        false => vec![f32::NAN; count],
    };
    let numbers: Vec<Option<usize>> = match file.has("samples.row") {
        true => whole("samples.row")?.into_iter().map(Some).collect(),
        false => vec![None; count],
    };
    let ReportMetadata { columns, cells, ids, .. } = &about;
    let fit_columns = |row: &Vec<String>| row.is_empty() || row.len() == columns.len();
    if !(cells.is_empty() || cells.len() == count && cells.iter().all(fit_columns))
        || !(ids.is_empty() || ids.len() == count)
        || numbers.len() != count
    {
        return Err(TensorFileError::invalid("samples", "has cells, ids or rows that are not one a sample"));
    }
    let lengths = [indices.len(), labels.len(), kinds.len()];
    let fits = |length: usize, each: usize| count.checked_mul(each) == Some(length);
    if lengths != [count; 3]
        || strangeness.len() != count
        || !fits(probabilities.len(), classes)
        || !fits(images.len(), size)
    {
        return Err(TensorFileError::invalid("samples", "has tensors of different lengths"));
    }
    if labels.iter().any(|&label| label >= classes) {
        return Err(TensorFileError::invalid("samples.label", "is no class"));
    }
    let sample = |at: usize| Sample {
        client: clients[at],
        index: indices[at],
        kind: if kinds[at] == 0 { SampleKind::LeastCertain } else { SampleKind::ConfidentlyWrong },
        label: labels[at],
        probabilities: probabilities[at * classes..(at + 1) * classes].to_vec(),
        strangeness: Some(strangeness[at]).filter(|score| score.is_finite()),
        pixels: images[at * size..(at + 1) * size].to_vec(),
        id: ids.get(at).cloned().flatten(),
        row: numbers[at],
        cells: cells.get(at).cloned().unwrap_or_default(),
    };
    let samples = (0..count).map(sample).collect();
    Ok(ReportData {
        train: rows("partition.train")?,
        test: rows("partition.test")?,
        image: about.image,
        samples,
        foreign: foreign(&whole("foreign.client")?, &file.f32("foreign.entropy")?),
        selection: about.selection.map(|found| selection(found, &file)).transpose()?,
        columns: about.columns,
        classes: about.classes,
    })
}

fn foreign(owners: &[usize], entropies: &[f32]) -> Vec<ForeignEntropies> {
    let mut all: Vec<ForeignEntropies> = Vec::new();
    for (&client, &entropy) in owners.iter().zip(entropies) {
        match all.last_mut() {
            Some(last) if last.client == client => last.entropies.push(entropy),
            _ => all.push(ForeignEntropies { client, entropies: vec![entropy] }),
        }
    }
    all
}

fn selection(about: SelectionMetadata, file: &TensorFile<'_>) -> Result<Selection, TensorFileError> {
    let is_count = |value: f64| (0.0..=MOST_SAMPLES as f64).contains(&value);
    if about.tensors.iter().any(|one| !is_count(one.chosen)) {
        return Err(TensorFileError::invalid("selection", "has numbers of parameters that are none"));
    }
    let map = if file.has("selection.map") {
        let [height, width] = file.matrix("selection.map")?;
        let shares = file.f64("selection.map")?;
        if shares.iter().any(|share| !(0.0..=1.0).contains(share)) {
            return Err(TensorFileError::invalid("selection.map", "has shares that are not from 0 to 1"));
        }
        Some(SelectionMap { height, width, shares })
    } else {
        None
    };
    Ok(Selection { clients: about.clients, tensors: about.tensors, map })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let sample = Sample {
            client: 2,
            index: 7,
            kind: SampleKind::ConfidentlyWrong,
            label: 1,
            probabilities: vec![0.75, 0.25],
            strangeness: Some(2.5),
            pixels: vec![0, 50, 100, 255],
            id: Some("patient 7".to_owned()),
            row: Some(12),
            cells: vec!["4.5".to_owned(), String::new()],
        };
        let data = ReportData {
            classes: vec!["cat".to_owned(), "dog".to_owned()],
            train: vec![vec![3, 0], vec![0, 4]],
            test: vec![vec![1, 0], vec![0, 1]],
            image: Some([1, 2, 2]),
            columns: vec!["age".to_owned(), "ward".to_owned()],
            samples: vec![sample],
            foreign: vec![ForeignEntropies { client: 1, entropies: vec![0.5, 0.25] }],
            selection: Some(Selection {
                clients: 2,
                tensors: vec![TensorSelection { tensor: "0.weight".to_owned(), chosen: 1.5, of: 8 }],
                map: Some(SelectionMap { height: 1, width: 2, shares: vec![0.5, 0.0] }),
            }),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(REPORT_DATA);
        for data in [data, ReportData { train: vec![vec![5]], test: vec![vec![0]], ..ReportData::default() }]
        {
            write_report_data(&path, &data).unwrap();
            assert_eq!(read_report_data(&std::fs::read(&path).unwrap()).unwrap(), data);
        }
        assert!(read_report_data(b"nonsense").is_err());
    }

    fn selection_of(data: &mut ReportData) -> &mut Selection {
        data.selection.as_mut().unwrap()
    }

    type Change<'a> = &'a dyn Fn(&mut ReportData);

    /// Files that are whole, and say what cannot be: each would panic, or take memory, while a page is drawn.
    #[test]
    fn what_cannot_be_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(REPORT_DATA);
        let good = || ReportData {
            classes: vec!["a".to_owned(), "b".to_owned()],
            train: vec![vec![1, 2]],
            test: vec![vec![1, 2]],
            image: Some([1, 1, 1]),
            selection: Some(Selection {
                clients: 1,
                tensors: vec![TensorSelection { tensor: "0.weight".to_owned(), chosen: 1.0, of: 2 }],
                map: Some(SelectionMap { height: 1, width: 1, shares: vec![0.5] }),
            }),
            ..ReportData::default()
        };
        let refused = |change: Change<'_>| {
            let mut data = good();
            change(&mut data);
            write_report_data(&path, &data).unwrap();
            read_report_data(&std::fs::read(&path).unwrap()).err().map(|error| error.to_string())
        };
        assert_eq!(refused(&|_| {}), None);
        let one = |cells: &[&str]| Sample {
            client: 0,
            index: 0,
            kind: SampleKind::LeastCertain,
            label: 0,
            probabilities: vec![0.5, 0.5],
            strangeness: None,
            pixels: vec![1],
            id: None,
            row: None,
            cells: cells.iter().map(|&cell| cell.to_owned()).collect(),
        };
        let changes: [(&str, Change<'_>); 10] = [
            ("one a sample", &|data| {
                (data.columns, data.samples) = (vec!["a".to_owned()], vec![one(&["1", "2"])]);
            }),
            ("a column a class", &|data| data.classes.truncate(1)),
            ("a column a class", &|data| data.test = vec![vec![1, 2, 3]]),
            ("more samples", &|data| data.train[0][0] = usize::MAX >> 1),
            ("small images", &|data| data.image = Some([2, 1, 1])),
            ("small images", &|data| data.image = Some([1, 0, 1])),
            ("small images", &|data| data.image = Some([1, 65, 1])),
            ("from 0 to 1", &|data| selection_of(data).map.as_mut().unwrap().shares[0] = f64::INFINITY),
            ("from 0 to 1", &|data| selection_of(data).map.as_mut().unwrap().shares[0] = f64::NAN),
            ("parameters that are none", &|data| selection_of(data).tensors[0].chosen = 1e300),
        ];
        for (expected, change) in changes {
            let error = refused(change).unwrap_or_default();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
