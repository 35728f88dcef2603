//! The end of a client's own site.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use fedsi_run::federation::{SavedSite, SiteFolder, SiteIdentity, SiteSetup};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyTuple};

use super::data::{common_client, given, site_data};
use super::raised::raised;
use super::read_config;
use crate::errors::Kind;
use crate::interrupt::interruptible;

/// A client's own site of one federation, with its folder `FOLDER/FEDERATION_ID`: what the client keeps, its model and its
/// predictions stay there.
#[pyclass(frozen, module = "fedsi._native")]
pub(crate) struct Site {
    /// None once it is closed.
    folder: Mutex<Option<Arc<SiteFolder>>>,
    identity: SiteIdentity,
    path: PathBuf,
}

#[pymethods]
impl Site {
    #[new]
    #[pyo3(signature = (folder, federation_id, config_toml, agreement, client, clients, data = None, network = None))]
    #[allow(clippy::too_many_arguments, reason = "Python calls it by keywords")]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        federation_id: String,
        config_toml: &str,
        agreement: Option<PyBackedBytes>,
        client: usize,
        clients: usize,
        data: Option<&Bound<'_, PyAny>>,
        network: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let config = read_config(config_toml)?;
        let agreement = agreement.map(|bytes| bytes.to_vec());
        open(py, folder, federation_id, config, agreement, (client, clients), data, network)
    }

    /// The site in this folder again, in another process: settings and agreement are those that it was made with.
    #[staticmethod]
    #[pyo3(signature = (folder, federation_id, data = None, network = None))]
    fn reopen(
        py: Python<'_>,
        folder: PathBuf,
        federation_id: String,
        data: Option<&Bound<'_, PyAny>>,
        network: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let SavedSite { identity, config, agreement } =
            SavedSite::read(&folder, &federation_id).map_err(raised)?;
        let place = (identity.client, identity.clients);
        open(py, folder, federation_id, config, agreement, place, data, network)
    }

    /// Carries out a request and returns the bytes to answer with. What the client keeps is on disk before it returns.
    fn perform<'py>(&self, py: Python<'py>, request: PyBackedBytes) -> PyResult<Bound<'py, PyBytes>> {
        let (folder, request) = (self.folder()?, request.to_vec());
        let answer = interruptible(py, move || folder.perform(&request))?.map_err(raised)?;
        Ok(PyBytes::new(py, &answer))
    }

    /// The rounds after which the client stored what it keeps, as far as they are still there, ascending.
    fn versions(&self) -> PyResult<Vec<u64>> {
        self.folder()?.versions().map_err(raised)
    }

    /// The client's number.
    #[getter]
    const fn client(&self) -> usize {
        self.identity.client
    }

    /// How many clients the federation has.
    #[getter]
    const fn clients(&self) -> usize {
        self.identity.clients
    }

    /// What tells the federation from any other.
    #[getter]
    fn federation_id(&self) -> &str {
        &self.identity.federation
    }

    /// The site's folder of this federation. After the sites were scored it is also a run of one client, which `fedsi predict`
    /// opens.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Lets go of the folder, so that another process can open the site. Everything is on disk already; a request that is
    /// still at work holds it until it is done.
    fn close(&self) {
        self.folder.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    const fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }
}

impl Site {
    fn folder(&self) -> PyResult<Arc<SiteFolder>> {
        let folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        folder
            .as_ref()
            .map(Arc::clone)
            .ok_or_else(|| Kind::Folder.error("this site is closed: open it again with Site.reopen"))
    }
}

#[allow(clippy::too_many_arguments, reason = "what both constructors have")]
fn open(
    py: Python<'_>,
    root: PathBuf,
    federation: String,
    config: fedsi_fl::Checked,
    agreement: Option<Vec<u8>>,
    (client, clients): (usize, usize),
    data: Option<&Bound<'_, PyAny>>,
    network: Option<&Bound<'_, PyAny>>,
) -> PyResult<Site> {
    let data = site_data(py, &config, agreement.as_deref(), client, data)?;
    let common = match given(network) {
        Some(network) => Some(common_client(&config, data.as_ref(), Some(network))?),
        None => None,
    };
    let setup = SiteSetup { federation, client, clients, config, agreement, data, common };
    let folder = py.detach(|| SiteFolder::open(&root, setup)).map_err(raised)?;
    let (identity, path) = (folder.identity().clone(), folder.path().to_owned());
    Ok(Site { folder: Mutex::new(Some(Arc::new(folder))), identity, path })
}
