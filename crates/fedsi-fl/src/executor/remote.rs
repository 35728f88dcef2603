//! Clients at sites of their own: tasks become requests, and answers outcomes, over any transport.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::request::{Request, Response};
use super::task::{Outcome, Task, Work};
use super::{Executor, ExecutorError};
use crate::client::{Client, ClientError};

/// Carries requests to clients' sites and their answers back.
pub trait Exchange: Send + Sync {
    /// Sends each client its request and hands the answers to `each` as they come, in any order. Who has no answer when
    /// this returns did not answer. `kind` says what the requests are for: `train`, `score-candidates`, `score-test`.
    /// Once `each` asks to stop, further answers are of no use.
    ///
    /// # Errors
    /// A transport that cannot go on, or was asked to stop. That a client cannot be reached is no error.
    fn exchange(
        &self,
        kind: &str,
        requests: Vec<(usize, Vec<u8>)>,
        each: &mut dyn FnMut(usize, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

/// Has tasks carried out by clients' own sites. Memory: all requests of a round at a time.
pub struct RemoteExecutor {
    federation: String,
    client: Arc<Client>,
    exchange: Box<dyn Exchange>,
}

impl RemoteExecutor {
    /// For the federation with this id.
    #[must_use]
    pub fn new(federation: &str, client: Arc<Client>, exchange: Box<dyn Exchange>) -> Self {
        Self { federation: federation.to_owned(), client, exchange }
    }

    /// The outcome in an answer to this client's request. What cannot be read, or answers another request, is a failure of
    /// that client.
    fn outcome(&self, client: usize, request: &str, answer: &[u8]) -> Outcome {
        let unreadable = |reason: String| Outcome { client, result: Err(ClientError::Unreadable(reason)) };
        match Response::decode(answer, &self.client) {
            Err(error) => unreadable(error.to_string()),
            Ok(response) if response.request != request => {
                unreadable("it answers another request".to_owned())
            }
            Ok(response) if response.outcome.client != client => {
                unreadable(format!("it is of client {}", response.outcome.client))
            }
            Ok(response) => response.outcome,
        }
    }
}

impl Executor for RemoteExecutor {
    fn run(
        &self,
        tasks: &mut (dyn Iterator<Item = Task> + Send),
        each: &mut dyn FnMut(Outcome) -> ControlFlow<()>,
    ) -> Result<(), ExecutorError> {
        let (mut kind, mut requests, mut digests) = ("", Vec::new(), BTreeMap::new());
        for task in tasks {
            let client = task.client;
            kind = name(&task.work);
            let request = Request { federation: self.federation.clone(), task };
            let bytes = request.encode().map_err(|error| ExecutorError::Exchange(error.into()))?;
            digests.insert(client, Request::digest(&bytes));
            requests.push((client, bytes));
        }
        if requests.is_empty() {
            return Ok(());
        }
        let mut answered = |client: usize, answer: &[u8]| match digests.remove(&client) {
            Some(request) => each(self.outcome(client, &request, answer)),
            None => {
                tracing::warn!(client, "an answer that nobody waits for is ignored");
                ControlFlow::Continue(())
            }
        };
        self.exchange.exchange(kind, requests, &mut answered).map_err(ExecutorError::Exchange)
    }
}

/// What a transport is told of a task.
const fn name(work: &Work) -> &'static str {
    match work {
        Work::Train => "train",
        Work::ScoreCandidates => "score-candidates",
        Work::Evaluate { .. } => "evaluate",
        Work::ScoreTest => "score-test",
    }
}
