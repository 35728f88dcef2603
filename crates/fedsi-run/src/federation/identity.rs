//! Which federation a folder belongs to, and which of its sites.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::federation_error::FederationError;

/// `federation.json`: which federation a server's folder is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FederationIdentity {
    /// Its id, which no other federation has.
    pub federation: String,
    /// The names of its sites, in the order of clients.
    pub sites: Vec<String>,
    /// SHA-256 of what the sites agreed on about their data, where they had to.
    pub agreement: Option<String>,
    /// Whether the network is of another library.
    pub own_network: bool,
    /// The fedsi that began it.
    pub version: String,
}

/// `site.json`: which site of which federation a folder is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteIdentity {
    /// The federation's id.
    pub federation: String,
    /// The client's number.
    pub client: usize,
    /// How many clients the federation has.
    pub clients: usize,
    /// SHA-256 of what the sites agreed on about their data, where they had to.
    pub agreement: Option<String>,
    /// Whether the network is of another library.
    pub own_network: bool,
    /// The fedsi that began it.
    pub version: String,
}

/// Names that tell sites apart.
pub(super) fn check_sites(sites: &[String]) -> Result<(), FederationError> {
    if sites.is_empty() {
        return Err(FederationError::Sites("there are none".to_owned()));
    }
    let mut known = BTreeSet::new();
    for (client, name) in sites.iter().enumerate() {
        if name.trim().is_empty() {
            return Err(FederationError::Sites(format!("that of client {client} is empty")));
        }
        if !known.insert(name) {
            return Err(FederationError::Sites(format!("two are {name:?}")));
        }
    }
    Ok(())
}

/// An id that can be the name of a folder and nothing else.
pub(super) fn check_id(id: &str) -> Result<(), FederationError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    match (1..=64).contains(&id.len()) && id.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(FederationError::Id { found: id.chars().take(80).collect() }),
    }
}

/// A client that there is.
pub(super) const fn check_client(client: usize, clients: usize) -> Result<(), FederationError> {
    if client < clients { Ok(()) } else { Err(FederationError::UnknownClient { client, clients }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_are_checked() {
        for good in ["a", "0f-9_Z", &"a".repeat(64)] {
            assert!(check_id(good).is_ok(), "{good}");
        }
        for bad in ["", "..", "a/b", "a b", "é", &"a".repeat(65)] {
            assert!(check_id(bad).is_err(), "{bad}");
        }
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert!(check_sites(&names(&["north", "south"])).is_ok());
        for bad in [&[][..], &["a", " "], &["a", "b", "a"]] {
            assert!(check_sites(&names(bad)).is_err(), "{bad:?}");
        }
    }
}
