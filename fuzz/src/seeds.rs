//! Inputs that the targets read: mutations start from them. `seeds/make.sh` makes those that are files.

use std::sync::Arc;

use fedsi_data::site::{Agreement, SiteDescription};
use fedsi_data::{FilesSpec, PartitionSpec, Size, Task as ClassesOrNumbers, TaskKind};
use fedsi_fl::Config;
use fedsi_fl::calibration::{Calibration, CandidateScore, Candidates};
use fedsi_fl::client::{ClientError, Predictions, Scored, TestScores};
use fedsi_fl::config::commented;
use fedsi_fl::executor::{EvaluationData, Outcome, Request, Response, Task, TaskResult, Work};
use fedsi_fl::parameters::{Gaussian, HeadSamples, Kept, Parameters, SharedParameters};
use fedsi_fl::wire::{CalibrationScores, Download, Upload, Variances, encode_parameters};

use crate::scratch::file;
use crate::targets::SITE_TABLE;

pub(crate) fn messages() -> Vec<Vec<u8>> {
    let upload = |variances| Upload {
        round: 3,
        client: 4,
        samples: 5,
        loss: Some(0.5),
        shared: vec![1.0; 30],
        variances,
    };
    let sparse = Variances { selected: Some(vec![1, 5, 7]), values: vec![0.5; 3] };
    let dense = Variances { selected: None, values: vec![0.5; 30] };
    let uploads = [None, Some(sparse), Some(dense)].map(|variances| upload(variances).encode());
    let gaussian = || Gaussian::uniform(vec![0.5; 30], 0.25);
    let download = |shared| Download {
        calibration: Calibration { prior_variance: Some(0.3), ..Calibration::default() },
        candidates: Some(Candidates::PriorVariances(vec![0.1, 1.0])),
        ..Download::new(7, Arc::new(shared))
    };
    let downloads = [SharedParameters::Point(vec![0.5; 30]), SharedParameters::Gaussian(gaussian())]
        .map(|shared| download(shared).encode());
    let kept = Parameters::Samples(HeadSamples { values: vec![0.5; 4], samples: vec![0.25; 8] });
    let evaluate =
        Work::Evaluate { on: EvaluationData::Test, further_inputs: vec![1.0; 4], return_model: true };
    let task = |work, kept| {
        let download = Arc::new(download(SharedParameters::Gaussian(gaussian())));
        Task { client: 2, work, download, kept: Some(kept), needed_since: Some(3) }
    };
    let at_site = task(Work::ScoreTest, Kept::AtSite { round: 6 });
    let tasks =
        [Work::Train, Work::ScoreCandidates, evaluate].map(|work| task(work, kept.clone().into()).encode());
    let request = Request { federation: "id".to_owned(), task: at_site.clone() };
    let scores =
        CalibrationScores { round: 8, client: 2, samples: 5, candidates: vec![CandidateScore::default(); 2] };
    let predictions =
        Predictions::Classes { classes: 3, probabilities: vec![0.5, 0.3, 0.2], labels: vec![1] };
    let tested = Scored::Scores(Box::new(TestScores::of(&predictions)));
    let outcome = |result| Outcome { client: 2, result };
    let outcomes = [
        Ok(TaskResult::CalibrationScores(scores.clone())),
        Ok(TaskResult::Scored(tested)),
        Err(ClientError::Diverged),
        Err(ClientError::LostState { expected: 6, found: Some(5) }),
    ]
    .map(|result| outcome(result).encode());
    let response =
        Response { request: "0f".to_owned(), outcome: outcome(Ok(TaskResult::Scored(Scored::Withheld))) };
    let others =
        [scores.encode(), encode_parameters(&kept), encode_parameters(&Parameters::Gaussian(gaussian()))];
    let travelling = [at_site.encode(), request.encode(), response.encode()];
    let all =
        uploads.into_iter().chain(downloads).chain(tasks).chain(outcomes).chain(travelling).chain(others);
    all.filter_map(Result::ok).collect()
}

pub(crate) fn checkpoints() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../seeds/checkpoint-fedsi.bin").to_vec(),
        include_bytes!("../seeds/checkpoint-bpfed.bin").to_vec(),
        include_bytes!("../seeds/checkpoint-fedpop.bin").to_vec(),
    ]
}

pub(crate) fn models() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../seeds/model-fedsi.safetensors").to_vec(),
        include_bytes!("../seeds/model-bpfed.safetensors").to_vec(),
        include_bytes!("../seeds/model-fedpop.safetensors").to_vec(),
        include_bytes!("../seeds/predictions.safetensors").to_vec(),
    ]
}

/// Without comments: damage should hit settings.
pub(crate) fn configs() -> Vec<Vec<u8>> {
    let bare = |method: &str| {
        let text = commented(&Config::defaults(method, "digits", Size::Small).ok()?).ok()?;
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        Some(lines.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes())
    };
    ["fedsi", "fedavg", "bpfed"].into_iter().filter_map(bare).collect()
}

pub(crate) fn tables() -> Vec<Vec<u8>> {
    let mut classes = String::from("a,b,y,c\n");
    let mut mixed = String::from("a;b;y;c\r\n");
    for row in 0..24 {
        let (class, client) = (["u", "v", "w"][row % 3], ["p", "q"][row % 2]);
        classes.push_str(&format!("{row}.5,-{row},{class},{client}\n"));
        // A delimiter of its own, decimal commas, missing values and dates.
        let date = if row % 4 == 0 { String::new() } else { format!("2024-01-{:02}", row + 1) };
        mixed.push_str(&format!("{row},5;{date};{class};{client}\r\n"));
    }
    vec![classes.into_bytes(), mixed.into_bytes()]
}

pub(crate) fn sites() -> Vec<Vec<u8>> {
    let Ok(train) = file("seed.csv", SITE_TABLE) else { return Vec::new() };
    let classes = FilesSpec { train, target: "y".into(), ..FilesSpec::default() };
    let numbers = FilesSpec { target: "a".into(), task: TaskKind::Regression, ..classes.clone() };
    let described = [classes, numbers]
        .map(|files| SiteDescription::of_files(&files, &PartitionSpec::iid(1), 1, 0, "Ghent").ok());
    let arrays = SiteDescription::of_arrays(
        "Turku",
        &[1, 2, 2],
        ClassesOrNumbers::Regression { outputs: 2 },
        None,
        9,
        2,
    );
    let all = described.into_iter().flatten().chain(arrays.ok());
    let both = |site: SiteDescription| {
        let agreed = Agreement::of(std::slice::from_ref(&site)).ok();
        [Some(site.to_bytes()), agreed.map(|agreed| agreed.to_bytes())]
    };
    all.flat_map(both).flatten().collect()
}

pub(crate) fn arrays() -> Vec<Vec<u8>> {
    let values = (0..8_u8).flat_map(|value| f32::from(value).to_le_bytes());
    let data: Vec<u8> = values.collect();
    // The header fills up to a multiple of 64 bytes.
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }";
    let header = format!("{header:<117}\n");
    let mut npy = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    npy.extend(header.as_bytes());
    npy.extend(&data);
    let header = r#"{"inputs":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]}}  "#;
    let mut tensors = (header.len() as u64).to_le_bytes().to_vec();
    tensors.extend(header.as_bytes());
    tensors.extend(&data);
    vec![npy, tensors]
}

pub(crate) fn images() -> Vec<Vec<u8>> {
    let pixels: Vec<u8> = (0..28 * 28).map(|place| (place % 251) as u8).collect();
    let mut idx = vec![0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28];
    idx.extend(&pixels);
    [png(&pixels), Some(idx)].into_iter().flatten().collect()
}

fn png(pixels: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 28, 28);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header().ok()?.write_image_data(pixels).ok()?;
    Some(bytes)
}
