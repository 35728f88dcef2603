//! The two ends of a federation whose clients are at sites of their own, each with its files: [`FederationServer`] and
//! [`SiteFolder`]. Who carries requests and answers between them is not known here ([`Exchange`](fedsi_fl::executor::Exchange)).

mod files;
mod identity;
mod outline;
mod result;
mod server;
mod site;
mod site_paths;
mod site_results;
mod site_states;

pub use crate::federation_error::FederationError;
pub use identity::{FederationIdentity, SiteIdentity};
pub use outline::DataOutline;
pub use result::{FederationResult, SiteResult};
pub use server::{FederationServer, FederationSetup};
pub use site::{SavedSite, SiteFolder, SiteSetup};
pub use site_paths::{UNUSED_PATHS, expect_own_paths};
