//! The file of a client's personal model, and that of the server's state: what each says of the data it belongs to.

use std::path::Path;

use fedsi_data::{Federation, Split};
use fedsi_fl::client::{Client, PersonalModel};
use fedsi_fl::wire::mode_prefix;
use fedsi_fl::{Checked, Coordinator};

use crate::RunError;
use crate::files::{Readers, WriteError, create_folder, write_failed};
use crate::model_file::{FORMAT, SERVER_FORMAT, model_tensors};
use crate::saved::SavedModel;
use crate::tensor_file::{NamedTensor, TensorFileError, parameter_tensors, write_checked_tensors};

/// What a saved model needs to be used elsewhere: its layers, what goes in and what comes out. Without layers where the
/// network is of another library, which alone can use it.
pub(crate) fn describe(
    federation: &dyn Federation,
    config: &Checked,
    has_layers: bool,
) -> Result<serde_json::Value, RunError> {
    let layers = match has_layers {
        true => Some(config.network(federation.input_shape(), federation.task())?.specs().to_vec()),
        false => None,
    };
    Ok(serde_json::json!({
        "input": federation.input_shape(),
        "layers": layers,
        "class_names": federation.class_names(),
        "columns": federation.input_columns(),
        "encoding": federation.table_encoding(),
        "pixels": federation.has_pixels(),
        "input_scaling": federation.input_scaling(),
        "target_scaling": federation.target_scaling(),
    }))
}

/// `checkpoint/server.safetensors` in a folder: the network a new client would start from, and the variances of the shared
/// part where the server holds a Gaussian.
pub(crate) fn save_server(
    coordinator: &Coordinator,
    description: &serde_json::Value,
    path: &Path,
    id: &str,
) -> Result<(), RunError> {
    let folder = path.join("checkpoint");
    create_folder(&folder, Readers::Umask)?;
    let (client, server) = (coordinator.client(), coordinator.server());
    let mut tensors = Vec::new();
    for (mode, parameters) in coordinator.global_parameters()?.iter().enumerate() {
        let mut own = parameter_tensors(client.network().layout(), parameters.values());
        let variance = server.shared()[mode].variance();
        own.extend(variance.map(|one| NamedTensor::f32("server.variance", vec![one.len()], one)));
        let prefix = mode_prefix(mode);
        tensors.extend(own.into_iter().map(|tensor| tensor.prefixed(&prefix)));
    }
    let entry = serde_json::json!({
        "format": SERVER_FORMAT,
        "run": id,
        "round": server.round(),
        "shared": client.procedure().shared.to_string(),
        "modes": server.shared().len(),
        "calibration": server.calibration(),
        "model": description,
    });
    Ok(write_checked_tensors(&folder.join("server.safetensors"), Readers::Umask, &tensors, &entry)?)
}

/// What all files of personal models say.
pub(crate) struct PersonalFiles<'a> {
    pub(crate) client: &'a Client,
    pub(crate) federation: &'a dyn Federation,
    pub(crate) method: &'a str,
    /// What tells the run's models from those of any other.
    pub(crate) id: &'a str,
    pub(crate) description: serde_json::Value,
}

impl PersonalFiles<'_> {
    /// Writes a model into this file.
    pub(crate) fn save(&self, file: &Path, model: &PersonalModel) -> Result<(), WriteError> {
        let (tensors, entry) = model_tensors(self.client, model);
        let invalid = |error| write_failed(file)(std::io::Error::other(TensorFileError::Entry(error)));
        let mut entry = serde_json::to_value(entry).map_err(invalid)?;
        entry["format"] = FORMAT.into();
        entry["run"] = self.id.into();
        entry["name"] = self.federation.client_name(model.client).into();
        entry["method"] = self.method.into();
        entry["model"] = self.description.clone();
        // The smallest and largest values of the client's own rows, and how many there are: in its own file, and nowhere
        // else.
        let federation = self.federation;
        if let Some(ranges) = federation.column_ranges(model.client) {
            entry["ranges"] = serde_json::to_value(ranges).map_err(invalid)?;
            let rows = federation.row_numbers(model.client, Split::Train);
            if let (Some(encoding), Some(rows)) = (federation.table_encoding(), rows) {
                let rows = rows.iter().filter_map(|&row| federation.row_cells(row));
                let counts = SavedModel::count_values(encoding, rows);
                entry["value_counts"] = serde_json::to_value(counts).map_err(invalid)?;
            }
        }
        write_checked_tensors(file, Readers::Owner, &tensors, &entry)
    }
}
