//! An executor of one's own: clients' work done by child processes, the same bits as on threads.
//!
//! A simulation hands an executor tasks and takes outcomes; both are data, and have a form in bytes. Here they travel
//! through pipes to children of this very program; a socket to other machines would look the same. A child has the
//! config and the data, and nothing else: what the server tells a client and what the client kept come with the task.
//!
//! `cargo run --release -p fedsi-fl --example own_executor`
//!
//! Trains FedSI on threads and in processes, compares server, personal models and predictions bit by bit, and exits
//! with 1 if anything differs. Then it shows what becomes of a worker that dies.

use std::error::Error;
use std::io::{self, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use fedsi_data::Federation;
use fedsi_fl::config::Overrides;
use fedsi_fl::executor::{Evaluated, Executor, ExecutorError, Outcome, Task, TaskResult, Worker};
use fedsi_fl::{Checked, Client, Registry, Simulation};

type Failure = Box<dyn Error + Send + Sync>;

const PROCESSES: usize = 2;

/// The argument that makes this program a worker, followed by the number of tasks after which it gives up.
const WORKER: &str = "--worker";

/// Posteriors in every second round; the prior variance of personal models is chosen after the fourth.
const SETTINGS: &str = "
method = 'fedsi'
rounds = 6
partition.clients = 6
federation.participants = 4
fedsi.posterior_interval = 2";

/// Parent and children make the same config and the same data.
fn federation() -> Result<(Checked, Arc<dyn Federation>), Failure> {
    let registry = Registry::builtin();
    let config = registry.resolve(&[Overrides::from_text("own_executor.rs", SETTINGS)?])?;
    let config = registry.check(config)?;
    let data = Arc::from(config.open_data()?);
    Ok((config, data))
}

/// A message: its length, then its bytes.
fn write_message(pipe: &mut impl Write, message: &[u8]) -> io::Result<()> {
    pipe.write_all(&(message.len() as u64).to_le_bytes())?;
    pipe.write_all(message)?;
    pipe.flush()
}

fn read_message(pipe: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    pipe.read_exact(&mut length)?;
    let (length, mut message) = (u64::from_le_bytes(length), Vec::new());
    // Memory follows what comes, not what was promised.
    if pipe.take(length).read_to_end(&mut message)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(message)
}

/// What a child does: tasks from standard input, outcomes to standard output, until the input ends.
fn work(tasks: usize) -> Result<(), Failure> {
    let (config, data) = federation()?;
    let worker = Worker::of_config(&config, data)?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    for _ in 0..tasks {
        let task = match read_message(&mut input) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            message => Task::decode(&message?)?,
        };
        write_message(&mut output, &worker.perform(task).encode()?)?;
    }
    Err(format!("this worker gives up after {tasks} tasks").into())
}

/// A child, seen from the parent.
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(tasks: usize) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([WORKER, &tasks.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.ok_or_else(|| io::Error::other("no pipe"))?);
        Ok(Self { child, input, output })
    }

    /// Sends a task and waits for its outcome.
    fn perform(&mut self, task: &Task, client: &Client) -> Result<Outcome, ExecutorError> {
        let number = task.client;
        let message = task.encode().map_err(|error| ExecutorError::Worker(error.into()))?;
        let answer = self.input.as_mut().map_or(Err(io::ErrorKind::BrokenPipe.into()), |input| {
            write_message(input, &message)?;
            read_message(&mut self.output)
        });
        let answer = answer.map_err(|error| {
            // Without input it ends, if it has not ended already.
            self.input = None;
            let id = self.child.id();
            let end = match self.child.wait() {
                Ok(status) => status.to_string(),
                Err(_) => error.to_string(),
            };
            ExecutorError::Worker(
                format!("process {id} ended during the work of client {number}: {end}").into(),
            )
        })?;
        Outcome::decode(&answer, client).map_err(|error| ExecutorError::Worker(error.into()))
    }
}

/// A worker ends when its input does; none is left behind.
impl Drop for Process {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

/// Carries out tasks in child processes.
struct Processes {
    client: Arc<Client>,
    workers: Vec<Mutex<Process>>,
}

impl Processes {
    fn start(client: &Arc<Client>, tasks: usize) -> Result<Self, ExecutorError> {
        let start = |_| Process::start(tasks).map(Mutex::new);
        let workers = (0..PROCESSES).map(start).collect::<io::Result<_>>();
        let workers = workers.map_err(|error| ExecutorError::Worker(error.into()))?;
        Ok(Self { client: Arc::clone(client), workers })
    }
}

impl Executor for Processes {
    /// A thread for each child: it takes a task when the child has answered the last one.
    fn run(
        &self,
        tasks: &mut (dyn Iterator<Item = Task> + Send),
        each: &mut dyn FnMut(Outcome) -> ControlFlow<()>,
    ) -> Result<(), ExecutorError> {
        let tasks = Mutex::new(tasks);
        let (sender, outcomes) = mpsc::sync_channel(self.workers.len());
        std::thread::scope(|scope| {
            for worker in &self.workers {
                let (sender, tasks) = (sender.clone(), &tasks);
                scope.spawn(move || {
                    let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
                    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
                    while let Some(task) = next() {
                        let outcome = worker.perform(&task, &self.client);
                        let lost = outcome.is_err();
                        if sender.send(outcome).is_err() || lost {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            // Whoever leaves this loop drops the channel, and the threads stop after the task at hand.
            for outcome in outcomes {
                if each(outcome?).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// Every bit of a finished run: the server's state, then each client's model, posterior and predictions.
fn bits(mut simulation: Simulation) -> Result<Vec<Vec<u8>>, Failure> {
    let clients = simulation.run()?.clients;
    let mut bits = vec![simulation.server().personal_download().encode()?];
    for client in clients {
        let result = Ok(TaskResult::Evaluated(Box::new(Evaluated {
            model: client.model,
            posterior: client.posterior,
            predictions: Some(client.predictions),
            strangeness: client.strangeness,
            further_probabilities: client.further_probabilities,
        })));
        bits.push(Outcome { client: client.client, result }.encode()?);
    }
    Ok(bits)
}

fn compare() -> Result<bool, Failure> {
    let (config, data) = federation()?;
    let threads = bits(Simulation::new(&config, Arc::clone(&data))?)?;
    let in_processes = |tasks| {
        let start = |client: &Arc<Client>| -> Result<Box<dyn Executor>, ExecutorError> {
            Ok(Box::new(Processes::start(client, tasks)?))
        };
        Simulation::with_executor(&config, Arc::clone(&data), start)
    };
    let processes = bits(in_processes(usize::MAX)?)?;
    let mut out = io::stdout().lock();
    let names =
        std::iter::once("server".to_owned()).chain((0..data.clients()).map(|id| format!("client {id}")));
    for ((name, threads), processes) in names.zip(&threads).zip(&processes) {
        let verdict = if threads == processes { "the same bits" } else { "OTHER BITS" };
        writeln!(
            out,
            "{name}: {} bytes on threads, {} in processes, {verdict}",
            threads.len(),
            processes.len()
        )?;
    }
    let same = threads == processes;
    let verdict = if same { "the same bits" } else { "other bits" };
    writeln!(out, "FedSI on threads and in {PROCESSES} processes: {verdict}")?;

    match in_processes(3)?.run() {
        Err(error) => writeln!(out, "workers that give up after 3 tasks: {error}")?,
        Ok(_) => return Err("a run went on without its workers".into()),
    }
    Ok(same)
}

fn run() -> Result<bool, Failure> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(WORKER) {
        return compare();
    }
    let tasks = arguments.next().ok_or("a worker needs a number of tasks")?.parse()?;
    work(tasks).map(|()| true)
}

fn main() -> io::Result<ExitCode> {
    let same = run().or_else(|error| writeln!(io::stderr(), "own_executor: {error}").map(|()| false))?;
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
