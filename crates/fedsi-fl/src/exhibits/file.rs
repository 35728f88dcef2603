//! `exhibits.safetensors`, written and read.

use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::Dtype;
use serde::{Deserialize, Serialize};

use super::{Exhibits, ForeignEntropies, Sample, SampleKind, Selection, SelectionMap, TensorSelection};
use crate::RunError;
use crate::files::{Values, doubles, find, write_tensors};

const FORMAT: &str = "fedsi-exhibits-1";

/// What is no array.
#[derive(Debug, Serialize, Deserialize)]
struct About {
    format: String,
    classes: Vec<String>,
    image: Option<[usize; 3]>,
    selection: Option<AboutSelection>,
}

#[derive(Debug, Serialize, Deserialize)]
struct AboutSelection {
    clients: usize,
    tensors: Vec<TensorSelection>,
}

/// Writes the file; equal exhibits give equal bytes.
///
/// # Errors
/// What the system says, with the path.
pub fn write_exhibits(path: &Path, exhibits: &Exhibits) -> Result<(), RunError> {
    let Exhibits { classes, train, test, image, samples, foreign, selection } = exhibits;
    let table = |name: &str, rows: &[Vec<usize>]| {
        let shape = vec![rows.len(), rows.first().map_or(0, Vec::len)];
        Values::i64(name, rows.iter().flatten().map(|&count| count as i64)).shaped(shape)
    };
    let column = |name: &str, of: fn(&Sample) -> i64| Values::i64(name, samples.iter().map(of));
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
        Values::f32("samples.probabilities", vec![samples.len(), classes.len()], &probabilities),
        Values::i64("foreign.client", owners),
        Values::f32("foreign.entropy", vec![entropies.len()], &entropies),
    ];
    if let Some([channels, height, width]) = *image {
        let pixels = samples.iter().flat_map(|one| one.pixels.iter().copied()).collect();
        tensors.push(Values::u8("samples.images", vec![samples.len(), channels, height, width], pixels));
    }
    if let Some(SelectionMap { height, width, shares }) =
        selection.as_ref().and_then(|found| found.map.as_ref())
    {
        tensors.push(Values::f64("selection.map", vec![*height, *width], shares));
    }
    let selection = selection.as_ref();
    let about = About {
        format: FORMAT.to_owned(),
        classes: classes.clone(),
        image: *image,
        selection: selection
            .map(|found| AboutSelection { clients: found.clients, tensors: found.tensors.clone() }),
    };
    let about = serde_json::to_value(about).map_err(|error| RunError::write(path)(error.into()))?;
    write_tensors(path, &tensors, Some(&about))
}

/// Reads the file's bytes.
///
/// # Errors
/// Bytes that are no such file.
pub fn read_exhibits(bytes: &[u8]) -> Result<Exhibits, String> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| error.to_string())?;
    let about =
        header.metadata().as_ref().and_then(|map| map.get("fedsi")).ok_or("it has no `fedsi` entry")?;
    let about: About = serde_json::from_str(about).map_err(|error| error.to_string())?;
    if about.format != FORMAT {
        return Err(format!("its format is `{}`, expected `{FORMAT}`", about.format));
    }
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let wholes = |name: &str| wholes(&tensors, name);
    let rows = |name: &str| -> Result<Vec<Vec<usize>>, String> {
        let width = find(&tensors, name, Dtype::I64)?.shape().last().copied().unwrap_or(0).max(1);
        Ok(wholes(name)?.chunks(width).map(<[usize]>::to_vec).collect())
    };
    let classes = about.classes.len();
    let [clients, indices, labels, kinds] =
        ["samples.client", "samples.index", "samples.label", "samples.kind"].map(wholes);
    let (clients, indices, labels, kinds) = (clients?, indices?, labels?, kinds?);
    let probabilities = singles(&tensors, "samples.probabilities")?;
    let size = about.image.map_or(0, |shape| shape.iter().product());
    let images = if size > 0 { find(&tensors, "samples.images", Dtype::U8)?.data() } else { &[] };
    let count = clients.len();
    let lengths = [indices.len(), labels.len(), kinds.len()];
    if lengths != [count; 3] || probabilities.len() != count * classes || images.len() != count * size {
        return Err("`samples` has arrays of different lengths".to_owned());
    }
    if labels.iter().any(|&label| label >= classes) {
        return Err("`samples.label` is no class".to_owned());
    }
    let sample = |at: usize| Sample {
        client: clients[at],
        index: indices[at],
        kind: if kinds[at] == 0 { SampleKind::LeastCertain } else { SampleKind::ConfidentlyWrong },
        label: labels[at],
        probabilities: probabilities[at * classes..(at + 1) * classes].to_vec(),
        pixels: images[at * size..(at + 1) * size].to_vec(),
    };
    Ok(Exhibits {
        train: rows("partition.train")?,
        test: rows("partition.test")?,
        image: about.image,
        samples: (0..count).map(sample).collect(),
        foreign: foreign(&wholes("foreign.client")?, &singles(&tensors, "foreign.entropy")?),
        selection: about.selection.map(|found| selection(found, &tensors)).transpose()?,
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

fn selection(about: AboutSelection, tensors: &SafeTensors<'_>) -> Result<Selection, String> {
    let map = match tensors.tensor("selection.map").ok().as_ref().map(|found| found.shape().to_vec()) {
        Some(shape) if shape.len() == 2 => Some(SelectionMap {
            height: shape[0],
            width: shape[1],
            shares: doubles(tensors, "selection.map")?,
        }),
        _ => None,
    };
    Ok(Selection { clients: about.clients, tensors: about.tensors, map })
}

fn wholes(tensors: &SafeTensors<'_>, name: &str) -> Result<Vec<usize>, String> {
    let whole =
        |&bytes| usize::try_from(i64::from_le_bytes(bytes)).map_err(|_| format!("`{name}` is below 0"));
    find(tensors, name, Dtype::I64)?.data().as_chunks::<8>().0.iter().map(whole).collect()
}

fn singles(tensors: &SafeTensors<'_>, name: &str) -> Result<Vec<f32>, String> {
    let found = find(tensors, name, Dtype::F32)?;
    Ok(found.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
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
            pixels: vec![0, 50, 100, 255],
        };
        let exhibits = Exhibits {
            classes: vec!["cat".to_owned(), "dog".to_owned()],
            train: vec![vec![3, 0], vec![0, 4]],
            test: vec![vec![1, 0], vec![0, 1]],
            image: Some([1, 2, 2]),
            samples: vec![sample],
            foreign: vec![ForeignEntropies { client: 1, entropies: vec![0.5, 0.25] }],
            selection: Some(Selection {
                clients: 2,
                tensors: vec![TensorSelection { tensor: "0.weight".to_owned(), chosen: 1.5, of: 8 }],
                map: Some(SelectionMap { height: 1, width: 2, shares: vec![0.5, 0.0] }),
            }),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("exhibits.safetensors");
        for exhibits in
            [exhibits, Exhibits { train: vec![vec![5]], test: vec![vec![0]], ..Exhibits::default() }]
        {
            write_exhibits(&path, &exhibits).unwrap();
            assert_eq!(read_exhibits(&std::fs::read(&path).unwrap()).unwrap(), exhibits);
        }
        assert!(read_exhibits(b"nonsense").is_err());
    }
}
