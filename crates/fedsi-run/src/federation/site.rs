//! A client's own site, with its files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedsi_data::{Federation, Split};
use fedsi_fl::client::Client;
use fedsi_fl::executor::Worker;
use fedsi_fl::{Checked, Site};

use super::files::{
    agreement_digest, expect_settings, expect_unused, other, read_agreement, read_config, read_json, take,
    write_json, write_setup,
};
use super::identity::{SiteIdentity, check_client, check_id};
use super::site_results::SiteResults;
use super::site_states::StateFiles;
use crate::RunError;
use crate::device::ComputeDevice;
use crate::federation_error::FederationError;
use crate::files::{Readers, for_owner_only, remove_temporary_in};
use crate::folder::FolderError;
use crate::lock::FolderLock;

/// Which site of which federation a folder is of.
const SITE: &str = "site.json";

/// What a site is made from.
#[derive(Clone)]
pub struct SiteSetup {
    /// The federation's id.
    pub federation: String,
    /// The client's number.
    pub client: usize,
    /// How many clients the federation has.
    pub clients: usize,
    /// The federation's settings, as the server sent them.
    pub config: Checked,
    /// What the sites agreed on about their data, where they had to.
    pub agreement: Option<Vec<u8>>,
    /// The site's own data: a federation of so many clients in which this one has samples.
    pub data: Arc<dyn Federation>,
    /// What clients have in common, where the network is of another library; else it is made from the settings.
    pub common: Option<Arc<Client>>,
}

/// A client's own site in a folder of its own: settings and agreement as they came, what the client keeps by version and, at
/// the end, its model and predictions in the files of a run with one client.
///
/// Its place is `ROOT/ID`: a site that takes part in several federations has a folder for each.
pub struct SiteFolder {
    path: PathBuf,
    lock: FolderLock,
    identity: SiteIdentity,
    config: Checked,
    /// What fedsi's own layers are computed on here.
    device: ComputeDevice,
    data: Arc<dyn Federation>,
    site: Site,
}

/// What a site's folder says of itself: all that is needed to open it again, besides the data.
#[derive(Clone, Debug)]
pub struct SavedSite {
    /// Which site it is of.
    pub identity: SiteIdentity,
    /// The settings.
    pub config: Checked,
    /// What the sites agreed on.
    pub agreement: Option<Vec<u8>>,
}

impl SavedSite {
    /// Reads the folder of a site below `root`.
    ///
    /// # Errors
    /// No folder of this federation, or one whose files were changed.
    pub fn read(root: &Path, federation: &str) -> Result<Self, RunError> {
        check_id(federation)?;
        let path = root.join(federation);
        let missing = || FederationError::NoFederation { path: path.clone() };
        let identity: SiteIdentity = read_json(&path.join(SITE))?.ok_or_else(missing)?;
        let agreement = read_agreement(&path, identity.agreement.as_deref())?;
        Ok(Self { identity, config: read_config(&path)?, agreement })
    }
}

impl SiteFolder {
    /// The site below `root`: a new folder or, where there is one of this federation, that one, with what the client kept.
    ///
    /// # Errors
    /// A folder of another site or settings, in use, or that cannot be written; data that is not a client's of this
    /// federation.
    pub fn open(root: &Path, setup: SiteSetup) -> Result<Self, RunError> {
        let SiteSetup { federation, client, clients, config, agreement, data, common } = setup;
        check_id(&federation)?;
        check_client(client, clients)?;
        check_data(data.as_ref(), client, clients, config.validation.fraction)?;
        config.expect_unpooled(data.as_ref())?;
        let own_network = common.is_some();
        let (device, worker) = match common {
            Some(common) => (ComputeDevice::Cpu, Worker::new(common, Arc::clone(&data))),
            None => {
                let device = ComputeDevice::open(config.device)?;
                let worker = device.worker(&config, Arc::clone(&data))?;
                (device, worker)
            }
        };
        let identity = SiteIdentity {
            federation,
            client,
            clients,
            agreement: agreement_digest(agreement.as_deref()),
            own_network,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let path = root.join(&identity.federation);
        let lock = take(&path, Readers::Owner)?;
        match read_json::<SiteIdentity>(&path.join(SITE))? {
            Some(there) => {
                let there = SiteIdentity { version: identity.version.clone(), ..there };
                if there != identity {
                    return other(&path, "site", format!("{there:?} there, {identity:?} here"));
                }
                expect_settings(&path, &config)?;
                read_agreement(&path, identity.agreement.as_deref())?;
                make_private(&path)?;
            }
            None => {
                expect_unused(&path)?;
                make_private(&path)?;
                write_setup(&path, &config, agreement.as_deref())?;
                write_json(&path.join(SITE), Readers::Owner, &identity)?;
            }
        }
        remove_temporary_in(&path)?;
        let states = StateFiles::open(&path.join("states"))?;
        let site = Site::new(&identity.federation, client, worker, Box::new(states));
        Ok(Self { path, lock, identity, config, device, data, site })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which site it is.
    #[must_use]
    pub const fn identity(&self) -> &SiteIdentity {
        &self.identity
    }

    /// The versions of what the client keeps, ascending.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn versions(&self) -> Result<Vec<u64>, RunError> {
        self.site.states().versions().map_err(|error| {
            let path = self.path.join("states");
            FederationError::Damaged { path, reason: error.to_string() }.into()
        })
    }

    /// Carries out a request and returns the bytes to answer with. Everything that the site keeps is on disk before it
    /// returns. The same request gives the same answer: one that comes twice does no harm.
    ///
    /// # Errors
    /// Bytes that are no request, or one of another federation or client; a model or predictions that cannot be written.
    /// What the client cannot do is in the answer.
    pub fn perform(&self, request: &[u8]) -> Result<Vec<u8>, RunError> {
        if !self.lock.is_held() {
            return Err(FolderError::Moved { path: self.path.clone() }.into());
        }
        let performed = self.site.perform(request).map_err(FederationError::from)?;
        if let Some(personal) = performed.personal {
            let results = SiteResults {
                path: &self.path,
                config: &self.config,
                client: self.site.worker().client(),
                federation: self.data.as_ref(),
                id: &self.identity.federation,
                own_network: self.identity.own_network,
                device: &self.device,
            };
            results.write(&personal)?;
        }
        Ok(performed.response)
    }
}

/// Takes the site's folders from everybody but their owner: one that was there, as from a copy, may be open to all. What is
/// made in them later is the owner's as well.
fn make_private(path: &Path) -> Result<(), RunError> {
    for_owner_only(path)?;
    for folder in ["states", "clients"].map(|name| path.join(name)) {
        if folder.exists() {
            for_owner_only(&folder)?;
        }
    }
    Ok(())
}

/// The data must be of as many clients, and this client's not empty.
fn check_data(
    data: &dyn Federation,
    client: usize,
    clients: usize,
    held_out: f64,
) -> Result<(), FederationError> {
    if data.clients() != clients {
        let found = data.clients();
        return Err(FederationError::Data(format!("it has {found} clients, and the federation {clients}")));
    }
    let count = data.count(client, Split::Train);
    if count == 0 || (count as f64 * held_out).floor() as usize >= count {
        let reason = format!("it has {count}, and validation.fraction = {held_out}");
        return Err(FederationError::Data(format!("client {client} has no training sample left: {reason}")));
    }
    Ok(())
}
