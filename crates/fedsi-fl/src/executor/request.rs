//! What travels between a coordinator and a client's own site: a task with the federation it belongs to, and an outcome
//! with the request that it answers.

use fedsi_data::hexadecimal;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::task::{Outcome, Task};
use crate::client::Client;
use crate::wire::{NamedTensor, WireError, decode, encode};

const REQUEST: &str = "request";
const RESPONSE: &str = "response";

/// A task for a client's own site.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The id of the federation.
    pub federation: String,
    /// The task.
    pub task: Task,
}

#[derive(Debug, Serialize, Deserialize)]
struct RequestContent {
    federation: String,
}

impl Request {
    /// The bytes that travel.
    ///
    /// # Errors
    /// The format's own limits.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let task = self.task.encode()?;
        let content = RequestContent { federation: self.federation.clone() };
        encode(REQUEST, &content, &[NamedTensor::u8("task", vec![task.len()], task)])
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that are not such a message.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (content, file) = decode::<RequestContent>(REQUEST, bytes)?;
        Ok(Self { federation: content.federation, task: Task::decode(file.u8("task")?)? })
    }

    /// What tells a request from any other: a response repeats it, so that an answer to an earlier request is not taken for
    /// one to this.
    #[must_use]
    pub fn digest(bytes: &[u8]) -> String {
        hexadecimal(&Sha256::digest(bytes)[..16])
    }
}

/// What a site answers.
#[derive(Debug)]
pub struct Response {
    /// The [digest](Request::digest) of the request.
    pub request: String,
    /// What came of the task.
    pub outcome: Outcome,
}

#[derive(Debug, Serialize, Deserialize)]
struct ResponseContent {
    request: String,
}

impl Response {
    /// The bytes that travel.
    ///
    /// # Errors
    /// The format's own limits.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let outcome = self.outcome.encode()?;
        let content = ResponseContent { request: self.request.clone() };
        encode(RESPONSE, &content, &[NamedTensor::u8("outcome", vec![outcome.len()], outcome)])
    }

    /// Reads what [`Self::encode`] wrote, of a client of this federation.
    ///
    /// # Errors
    /// Bytes that are not such a message, or do not fit the network.
    pub fn decode(bytes: &[u8], client: &Client) -> Result<Self, WireError> {
        let (content, file) = decode::<ResponseContent>(RESPONSE, bytes)?;
        Ok(Self { request: content.request, outcome: Outcome::decode(file.u8("outcome")?, client)? })
    }
}
