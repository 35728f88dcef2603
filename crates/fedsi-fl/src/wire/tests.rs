//! Every message as bytes and back: equal, of the length that was foretold, and never a panic.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::calibration::{Calibration, CandidateScore, Candidates};
use crate::parameters::{Gaussian, HeadSamples, Parameters, SharedParameters};

/// Numbers of any size; NaN is not equal to itself.
fn number() -> impl Strategy<Value = f32> {
    any::<f32>().prop_filter("a number", |value| !value.is_nan())
}

/// Variances as clients have them.
fn variance() -> impl Strategy<Value = f32> {
    f32::MIN_POSITIVE..1e30
}

fn shared_parameters() -> impl Strategy<Value = SharedParameters> {
    let gaussian = vec((number(), variance()), 0..50).prop_map(|pairs| {
        let (mean, variance) = pairs.into_iter().unzip();
        SharedParameters::Gaussian(Gaussian { mean, variance })
    });
    prop_oneof![vec(number(), 0..50).prop_map(SharedParameters::Point), gaussian]
}

/// Parameters of every kind that a client keeps.
fn kept_parameters() -> impl Strategy<Value = Parameters> {
    let gaussian = vec((number(), variance()), 0..50).prop_map(|pairs| {
        let (mean, variance) = pairs.into_iter().unzip();
        Parameters::Gaussian(Gaussian { mean, variance })
    });
    let samples = (vec(number(), 0..50), vec(number(), 0..100))
        .prop_map(|(values, samples)| Parameters::Samples(HeadSamples { values, samples }));
    prop_oneof![vec(number(), 0..50).prop_map(Parameters::Point), gaussian, samples]
}

proptest! {
    #[test]
    fn uploads_survive_the_journey_and_their_length_is_known(
        round in 0_u64..1_000_000, client in 0_usize..100_000, samples in 0_usize..10_000,
        loss in proptest::option::of(-1e9..1e9_f64),
        shared in vec(number(), 0..200),
        variances in proptest::option::of(vec((any::<u32>(), 0.0_f32..9.0), 0..20)),
        all: bool,
    ) {
        let variances = variances.map(|pairs| {
            let (selected, values): (Vec<u32>, _) = pairs.into_iter().unzip();
            Variances { selected: (!all).then_some(selected), values }
        });
        let upload = Upload { round, client, samples, loss, shared, variances };
        let bytes = upload.encode().unwrap();
        prop_assert_eq!(bytes.len(), upload.encoded_len());
        prop_assert_eq!(Upload::decode(&bytes).unwrap(), upload);
    }

    #[test]
    fn downloads_survive_the_journey_and_their_length_is_known(
        round: u64, shared in shared_parameters(), modes in vec(any::<usize>(), 1..4),
        variances_wanted: bool, data_set_aside: bool,
        prior_variance in proptest::option::of(1e-300..1e300_f64),
        temperature in proptest::option::of(1e-300..1e300_f64),
        values in proptest::option::of(vec(1e-300..1e300_f64, 0..20)),
    ) {
        let modes = modes.into_iter().map(|mode| SharedMode { mode, shared: Arc::new(shared.clone()) }).collect();
        let calibration = Calibration {
            prior_variance,
            temperature,
            mixture_temperature: temperature,
            temperature_alone: prior_variance,
        };
        let candidates =
            values.map(if variances_wanted { Candidates::Temperatures } else { Candidates::AverageTemperatures });
        let download = Download {
            round,
            modes,
            variances_wanted,
            data_set_aside,
            common_set_aside: !data_set_aside,
            calibration,
            candidates,
        };
        let bytes = download.encode().unwrap();
        prop_assert_eq!(bytes.len(), download.encoded_len());
        prop_assert_eq!(Download::decode(&bytes).unwrap(), download);
    }

    #[test]
    fn kept_parameters_survive_the_journey(kept in kept_parameters()) {
        let bytes = encode_parameters(&kept).unwrap();
        prop_assert_eq!(decode_parameters(&bytes).unwrap(), kept);
    }

    #[test]
    fn calibration_scores_survive_the_journey_and_their_length_is_known(
        round: u64, client: usize, samples: usize, losses in vec(-1e300..1e300_f64, 0..20),
    ) {
        let score = |loss| CandidateScore { loss, excess: -loss };
        let candidates = losses.into_iter().map(score).collect();
        let scores = CalibrationScores { round, client, samples, candidates };
        let bytes = scores.encode().unwrap();
        prop_assert_eq!(bytes.len(), scores.encoded_len());
        prop_assert_eq!(CalibrationScores::decode(&bytes).unwrap(), scores);
    }

    #[test]
    fn no_bytes_make_decoding_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = Upload::decode(&bytes);
        let _ = Download::decode(&bytes);
        let _ = CalibrationScores::decode(&bytes);
        let _ = decode_parameters(&bytes);
    }

    #[test]
    fn a_damaged_message_is_an_error_or_a_message(at in 0_usize..400, value: u8, kept in kept_parameters()) {
        let upload = Upload { round: 3, client: 4, samples: 5, loss: Some(0.5), shared: vec![1.0; 30], variances: None };
        let download = Download::new(3, Arc::new(SharedParameters::Gaussian(Gaussian::uniform(vec![1.0; 30], 0.5))));
        let scores = CalibrationScores { round: 2, client: 1, samples: 3, candidates: vec![CandidateScore::default(); 2] };
        let damaged = |mut bytes: Vec<u8>| {
            if let Some(byte) = bytes.get_mut(at) { *byte = value; }
            bytes
        };
        let _ = Upload::decode(&damaged(upload.encode().unwrap()));
        let _ = Download::decode(&damaged(download.encode().unwrap()));
        let _ = CalibrationScores::decode(&damaged(scores.encode().unwrap()));
        let _ = decode_parameters(&damaged(encode_parameters(&kept).unwrap()));
    }
}

fn download() -> Download {
    Download::new(7, Arc::new(SharedParameters::Point(vec![0.5])))
}

/// A message says what it is: none is taken for another.
#[test]
fn a_download_is_no_upload() {
    let error = Upload::decode(&download().encode().unwrap()).unwrap_err().to_string();
    assert_eq!(error, "a fedsi message of kind `download`, expected `upload`");
    let error =
        Download::decode(&encode_parameters(&Parameters::Point(vec![0.5])).unwrap()).unwrap_err().to_string();
    assert_eq!(error, "a fedsi message of kind `parameters`, expected `download`");
}

#[test]
fn messages_of_another_version_are_refused() {
    let header = serde_json::json!({ "message": "download", "version": VERSION + 1, "round": 7 });
    let bytes = tensor_bytes(&[NamedTensor::f32("shared", vec![1], &[0.5])], Some(&header)).unwrap();
    let error = Download::decode(&bytes).unwrap_err();
    assert!(matches!(error, WireError::Version { found } if found == VERSION + 1), "{error}");
}

/// What fits no other part of a message, or is missing, is named.
#[test]
fn parts_that_do_not_fit_each_other_are_refused() {
    let refused = |kind: &str, tensors: &[NamedTensor], read: fn(&[u8]) -> Option<WireError>| {
        let posterior = serde_json::json!({ "covariance": "mean-field" });
        let header = serde_json::json!({
            "message": kind, "version": VERSION, "round": 1, "client": 0, "samples": 1, "posterior": posterior,
            "variances_wanted": false, "data_set_aside": false, "modes": [0], "calibration": {},
        });
        read(&tensor_bytes(tensors, Some(&header)).unwrap()).unwrap().to_string()
    };
    let f32 = |name: &str, values: &[f32]| NamedTensor::f32(name, vec![values.len()], values);
    let download = |bytes: &[u8]| Download::decode(bytes).err();
    let upload = |bytes: &[u8]| Upload::decode(bytes).err();
    let kept = |bytes: &[u8]| decode_parameters(bytes).err();

    let short = [f32("shared", &[0.5, 1.0]), f32("variance", &[0.5])];
    assert!(
        refused("download", &short, download).contains("not one finite number above 0 for each parameter")
    );
    assert!(refused("download", &[], download).contains("no tensor `shared`"));
    let short = [f32("shared", &[0.5]), f32("variance", &[0.5]), NamedTensor::u32("selected", &[1, 2])];
    assert!(refused("upload", &short, upload).contains("variances are not as many as selected parameters"));
    for variances in [&[0.5_f32][..], &[0.5, 0.0], &[0.5, f32::NAN], &[-1.0, 1.0], &[f32::INFINITY, 1.0]] {
        let tensors = [f32("values", &[0.5, 1.0]), f32("posterior.variance", variances)];
        assert!(
            refused("parameters", &tensors, kept).contains("one finite number above 0 for each parameter")
        );
    }
}
