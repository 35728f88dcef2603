//! Two hundred thousand hostile messages, models, predictions, checkpoints and configs: read or refused on one line,
//! without a panic, and without memory that the bytes cannot back.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::borrow::Cow;

use fedsi_fl::aggregate::{Shared, Variances};
use fedsi_fl::checkpoint::Checkpoint;
use fedsi_fl::config::{Overrides, commented, resolve};
use fedsi_fl::message::{Download, Upload};
use fedsi_fl::simulation::Evaluated;
use fedsi_fl::{Config, read_predictions};
use fedsi_random::{ChaCha8Rng, Purpose, Streams};
use rand::RngExt as _;
use support::{clouds, config, simulation};

/// Damaged bytes of each kind.
const CASES: usize = 40_000;

/// What a few kilobytes may cost, whatever they promise.
const MOST_BYTES: u64 = 8 << 20;

const TELLING: [u8; 12] = [0, 1, 8, 127, 128, 255, b'9', b'[', b',', b'"', b'{', b'\n'];

/// Overwrites, inserts, removes or cuts off bytes: mostly near the beginning, where headers are.
fn damaged(good: &[u8], rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..rng.random_range(1..6) {
        let reach = if rng.random_bool(0.7) { bytes.len().min(400) } else { bytes.len() };
        if reach == 0 {
            break;
        }
        let at = rng.random_range(0..reach);
        let byte =
            if rng.random_bool(0.5) { TELLING[rng.random_range(0..TELLING.len())] } else { rng.random() };
        match rng.random_range(0..8) {
            0..5 => bytes[at] = byte,
            5 => bytes.insert(at, byte),
            6 => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

fn hostile(name: &str, good: &[u8], read: impl Fn(&[u8]) -> Result<(), String>) {
    let mut rng = Streams::new(good.len() as u64).stream(Purpose::Batches, 0, 0);
    for case in 0..CASES {
        let bytes = damaged(good, &mut rng);
        let mut outcome = Ok(());
        let used = allocation_counter::measure(|| outcome = read(&bytes));
        assert!(used.bytes_max < MOST_BYTES, "{name}, case {case}: {} bytes of memory", used.bytes_max);
        if let Err(error) = outcome {
            assert!(!error.contains('\n'), "{name}, case {case}: {error}");
        }
    }
    read(good).unwrap_or_else(|error| panic!("{name}: undamaged, it is refused: {error}"));
}

#[test]
fn uploads() {
    let spread = Some(Variances { selected: Some(vec![1, 5, 7]), values: vec![0.5; 3] });
    let upload = Upload { round: 3, client: 4, samples: 5, loss: Some(0.5), shared: vec![1.0; 30], spread };
    hostile("upload", &upload.encode().unwrap(), |bytes| {
        let upload = Upload::decode(bytes).map_err(|error| error.to_string())?;
        // What can be read must not harm whoever looks at it.
        if let Some(spread) = upload.spread.filter(|spread| spread.objection(30).is_none()) {
            let _ = spread.pairs().count();
        }
        Ok(())
    });
}

#[test]
fn downloads() {
    let download = Download { round: 7, shared: Cow::Owned(Shared::gaussian(vec![0.5; 30], 0.25)) };
    hostile("download", &download.encode().unwrap(), |bytes| {
        Download::decode(bytes).map(drop).map_err(|error| error.to_string())
    });
}

#[test]
fn checkpoints_with_a_right_checksum() {
    for method in ["fedsi", "bpfed", "fedpop"] {
        let mut run = simulation(config(method, 3), clouds(3));
        run.round().unwrap();
        let checkpoint = Checkpoint {
            snapshot: run.snapshot().unwrap(),
            settings: "settings".to_owned(),
            progress: fedsi_fl::checkpoint::Progress::default(),
        };
        let sealed = checkpoint.encode().unwrap();
        // The header, and then a body whose checksum is made to fit: what a hostile file would have.
        hostile(method, &sealed, |bytes| Checkpoint::decode(bytes).map(drop));
        hostile(method, &sealed[fedsi_fl::checkpoint::BODY..], |body| {
            let found = Checkpoint::decode(&fedsi_fl::checkpoint::sealed(body))?;
            let mut other = simulation(config(method, 3), clouds(3));
            other.restore(found.snapshot)
        });
    }
}

#[test]
fn models_and_predictions() {
    for method in ["fedsi", "bpfed", "fedpop"] {
        let mut run = simulation(config(method, 3), clouds(3));
        run.round().unwrap();
        let bytes = std::sync::Mutex::new(Vec::new());
        let save = |evaluated: &Evaluated| {
            *bytes.lock().unwrap() = fedsi_fl::model_bytes(run.network(), &evaluated.model).unwrap();
            Ok(())
        };
        run.evaluate(save, |_| Ok(())).unwrap();
        let bytes = bytes.into_inner().unwrap();
        hostile(method, &bytes, |bytes| fedsi_fl::read_model(run.network(), bytes).map(drop));
    }
    let tensors = [
        fedsi_fl::Values::f64("mean", vec![4, 2], &[1.0; 8]),
        fedsi_fl::Values::f64("variance", vec![4, 2], &[1.0; 8]),
        fedsi_fl::Values::f64("targets", vec![4, 2], &[1.0; 8]),
        fedsi_fl::Values::i64("client", [0, 0, 1, 1].into_iter()),
    ];
    let file = tempfile::NamedTempFile::new().unwrap();
    fedsi_fl::write_tensors(file.path(), &tensors, None).unwrap();
    hostile("predictions", &std::fs::read(file.path()).unwrap(), |bytes| read_predictions(bytes).map(drop));
}

#[test]
fn configs() {
    let config = Config::defaults("fedsi", fedsi_data::DatasetName::Digits, fedsi_data::Size::Small);
    let text = commented(&config).unwrap();
    // Without its comments: damage should hit settings.
    let bare: String = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .flat_map(|line| [line, "\n"])
        .collect();
    hostile("config", bare.as_bytes(), |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return Ok(()) };
        let layer = Overrides::from_text("a file", text).map_err(|error| error.to_string())?;
        let config = resolve(&[layer]).map_err(|error| error.to_string())?;
        config.check().map(drop).map_err(|error| error.to_string())
    });
}
