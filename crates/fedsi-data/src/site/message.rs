//! What descriptions and agreements have in common as messages: JSON with a version, and limits on what is believed.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use crate::checksum::hexadecimal;
use crate::error::{DataError, one_line, quoted};

/// The version of both messages. A change of what they mean is another number.
pub(super) const VERSION: u32 = 1;
/// Most bytes of a message.
const MOST_BYTES: usize = 64 << 20;
/// Most sites.
pub(super) const MOST_SITES: usize = 1 << 20;
/// Most letters of a site's name.
const LONGEST_NAME: usize = 200;

/// What cannot be used, and what could: the two parts of an error in which they differ.
pub(super) type Refusal = (String, String);

/// One of the two messages.
pub(super) trait Message: Serialize + DeserializeOwned {
    /// What errors call it.
    const NAME: &'static str;

    /// The version it says it has.
    fn version(&self) -> u32;

    /// Whether what it says is possible.
    fn check(&self) -> Result<(), Refusal>;

    fn bytes(&self) -> Vec<u8> {
        // A structure of numbers, texts and lists always has a text; an empty one is refused by who receives it.
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn sha256(&self) -> String {
        hexadecimal(&Sha256::digest(self.bytes()))
    }

    fn read(bytes: &[u8]) -> Result<Self, DataError> {
        let refused = |(found, expected): Refusal| {
            DataError::sites(Self::NAME, found, expected, "make it again with this version of fedsi")
        };
        if bytes.len() > MOST_BYTES {
            return Err(refused((format!("{} bytes", bytes.len()), "at most 64 MiB".to_owned())));
        }
        let read: Result<Self, _> = serde_json::from_slice(bytes);
        let message = read.map_err(|error| {
            // Whether it is one of another version is worth knowing even where the rest cannot be read.
            match stated_version(bytes) {
                Some(version) if version != u64::from(VERSION) => other_version(version),
                _ => (one_line(&error.to_string()), format!("the JSON of {}", Self::NAME)),
            }
        });
        let message = message.map_err(refused)?;
        if message.version() != VERSION {
            return Err(refused(other_version(message.version().into())));
        }
        message.check().map_err(refused)?;
        Ok(message)
    }
}

fn other_version(version: u64) -> Refusal {
    (format!("version {version}"), format!("version {VERSION}"))
}

fn stated_version(bytes: &[u8]) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u64,
    }
    serde_json::from_slice::<Versioned>(bytes).ok().map(|stated| stated.version)
}

/// Refuses names that cannot be shown or told apart in a table.
pub(super) fn check_name(name: &str) -> Result<(), Refusal> {
    let shown = name.trim() == name && !name.is_empty() && !name.chars().any(char::is_control);
    if shown && name.chars().count() <= LONGEST_NAME {
        return Ok(());
    }
    let expected = format!("1 to {LONGEST_NAME} letters, no spaces around them and no control characters");
    Err((format!("the site's name {}", quoted(name)), expected))
}
