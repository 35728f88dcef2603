//! What each target reads.

use fedsi_data::site::{Agreement, SiteDescription, SiteFederation};
use fedsi_data::{
    DataSpec, Federation, FilesSpec, InputForm, PartitionKind, PartitionSpec, Size, Split, Task, read_inputs,
};
use fedsi_fl::config::Overrides;
use fedsi_fl::executor::{Outcome, Request, Response, Task as ClientTask};
use fedsi_fl::wire::{CalibrationScores, Download, Upload, decode_parameters};
use fedsi_fl::{Client, Config, resolve};
use fedsi_nn::LayerSpec;
use fedsi_run::checkpoint::{BODY, Checkpoint, sealed};

use crate::scratch::{ScratchError, file, folder};

/// A client of a small network, whose models and outcomes are read.
fn client() -> Option<Client> {
    let mut config = Config::defaults("fedsi", "files", Size::Small).ok()?;
    config.model.body = vec![LayerSpec::Linear(3), LayerSpec::Tanh];
    Client::of_config(&config.check().ok()?, &[2], Task::Classification { classes: 3 }, None).ok()
}

/// Messages between server and clients, tasks and outcomes.
pub(crate) fn messages(bytes: &[u8]) -> Result<bool, ScratchError> {
    let up = Upload::decode(bytes);
    if let Ok(upload) = &up {
        // What can be read must not harm whoever looks at it.
        let _ = upload.variances.as_ref().map(|variances| variances.check(upload.shared.len()));
    }
    let read = [
        up.is_ok(),
        Download::decode(bytes).is_ok(),
        CalibrationScores::decode(bytes).is_ok(),
        decode_parameters(bytes).is_ok(),
        ClientTask::decode(bytes).is_ok(),
        Request::decode(bytes).is_ok(),
        client().is_some_and(|client| {
            Outcome::decode(bytes, &client).is_ok() || Response::decode(bytes, &client).is_ok()
        }),
    ];
    Ok(read.contains(&true))
}

/// Checkpoints as they are, and with a checksum made to fit, as a hostile file would have.
pub(crate) fn checkpoints(bytes: &[u8]) -> Result<bool, ScratchError> {
    let whole = Checkpoint::decode(bytes).is_ok();
    let body = bytes.get(BODY..).unwrap_or_default();
    Ok(Checkpoint::decode(&sealed(body)).is_ok() || whole)
}

/// Personal models and predictions.
pub(crate) fn models(bytes: &[u8]) -> Result<bool, ScratchError> {
    let model = client().is_some_and(|client| fedsi_run::read_model(&client, bytes).is_ok());
    Ok(fedsi_run::read_predictions(bytes).is_ok() || model)
}

/// TOML configs: parsed, layered and checked.
pub(crate) fn configs(bytes: &[u8]) -> Result<bool, ScratchError> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(false) };
    let layer = Overrides::from_text("fuzz", text);
    let config = layer.ok().and_then(|layer| resolve(&[layer]).ok());
    Ok(config.is_some_and(|config| config.check().is_ok()))
}

/// CSV tables with a target and a client column.
pub(crate) fn tables(bytes: &[u8]) -> Result<bool, ScratchError> {
    let files = FilesSpec {
        train: file("t.csv", bytes)?,
        target: "y".into(),
        client: "c".into(),
        ..FilesSpec::default()
    };
    let data = DataSpec { files, ..DataSpec::defaults("files", Size::Small) };
    let partition = PartitionSpec { kind: PartitionKind::Natural, ..PartitionSpec::iid(10) };
    let opened = fedsi_data::open(&data, &partition, 1);
    let used = |federation: Box<dyn Federation>| drop(federation.samples(0, Split::Train));
    Ok(opened.map(used).is_ok())
}

/// What sites tell of their data, and what they agreed on: by themselves, and opened on a table that they were not made of.
pub(crate) fn sites(bytes: &[u8]) -> Result<bool, ScratchError> {
    let description = SiteDescription::from_bytes(bytes);
    let read = Agreement::from_bytes(bytes);
    let whole = description.is_ok() || read.is_ok();
    let agreed = description.ok().and_then(|site| Agreement::of(&[site]).ok());
    for agreement in agreed.into_iter().chain(read.ok()) {
        let files =
            FilesSpec { train: file("site.csv", SITE_TABLE)?, target: "y".into(), ..FilesSpec::default() };
        if let Ok(own) = SiteFederation::open_files(&files, &PartitionSpec::iid(1), 1, &agreement, 0) {
            drop((own.samples(0, Split::Train), own.column_ranges(0), own.data_summary()));
        }
    }
    Ok(whole)
}

/// The table of a site.
pub(crate) const SITE_TABLE: &[u8] =
    b"a,b,d,y\n1,red,2024-01-01,u\n2,red,,v\n3,red,2024-03-01,u\n4,,2024-04-01,v\n,blue,2024-05-01,u\n";

/// NPY and safetensors as inputs of predictions.
pub(crate) fn arrays(bytes: &[u8]) -> Result<bool, ScratchError> {
    let files = FilesSpec::default();
    let form = InputForm {
        files: Some(&files),
        shape: &[4],
        columns: None,
        encoding: None,
        pixels: false,
        scaling: None,
    };
    let mut read = false;
    for name in ["x.npy", "x.safetensors"] {
        read |= read_inputs(&file(name, bytes)?, &form).is_ok();
    }
    Ok(read)
}

/// PNG, IDX and CIFAR-10's batches.
pub(crate) fn images(bytes: &[u8]) -> Result<bool, ScratchError> {
    let form = InputForm {
        files: None,
        shape: &[1, 28, 28],
        columns: None,
        encoding: None,
        pixels: true,
        scaling: None,
    };
    let mut read = false;
    for name in ["x.png", "train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"] {
        read |= read_inputs(&file(name, bytes)?, &form).is_ok();
    }
    file("cifar-10/cifar-10-batches-bin/data_batch_1.bin", bytes)?;
    let data = DataSpec { dir: folder(), ..DataSpec::defaults("cifar-10", Size::Small) };
    let partition = PartitionSpec::labels(20, 25, 475);
    Ok(fedsi_data::open(&data, &partition, 1).is_ok() || read)
}
