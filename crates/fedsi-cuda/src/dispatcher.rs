//! Joins the work of clients into launches.
//!
//! Each client is a thread that runs the same code as on a CPU, and hands what belongs on the GPU to a [`Dispatcher`], which
//! collects what the clients at work come with and launches equal kernels at once. So methods know nothing of batches over
//! clients, and steps of training make no round trip to the host: what is handed over is all steps of a phase.

use std::sync::{Arc, Mutex};

use cudarc::driver::CudaStream;

use crate::CudaError;
use crate::batcher::{Batcher, Counted};
use crate::device::{Device, lock};
use crate::launch::LoadedKernel;
use crate::memory::{DeviceBuffer, PinnedBuffer, Transfer};

/// One client's part of a launch.
pub(crate) struct ClientWork {
    pub(crate) kernel: Arc<LoadedKernel>,
    /// The client's job, as the kernel's struct.
    pub(crate) job: Vec<u8>,
    /// The kernel's parameters after the jobs; clients of one launch have the same.
    pub(crate) parameters: Vec<Vec<u8>>,
    /// What is copied to the GPU before.
    pub(crate) upload: Option<Transfer>,
    /// What is copied back when the kernel has ended.
    pub(crate) download: Option<Transfer>,
}

/// Joins the work of the clients of one run.
pub(crate) struct Dispatcher {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    batcher: Batcher<ClientWork>,
    /// The jobs of a launch; used by whoever launches.
    jobs: Mutex<Option<Jobs>>,
}

struct Jobs {
    host: PinnedBuffer,
    device: DeviceBuffer,
}

impl Dispatcher {
    pub(crate) fn new(device: &Arc<Device>) -> Result<Self, CudaError> {
        Ok(Self {
            stream: device.new_stream()?,
            device: Arc::clone(device),
            batcher: Batcher::new(),
            jobs: Mutex::default(),
        })
    }

    /// From now on launches wait for so many more threads, each of which must work within its [`Counted`].
    pub(crate) fn expect(&self, threads: usize) -> Vec<Counted<'_, ClientWork>> {
        self.batcher.expect(threads)
    }

    /// Does a client's part on the GPU, together with what other clients want of it. Returns when it is done and the
    /// download is there.
    ///
    /// # Safety
    /// As for `LoadedKernel::launch`: the job's addresses are of memory that is large enough and that nobody else uses until
    /// this returns, as are the transfers' buffers.
    pub(crate) unsafe fn perform(&self, work: ClientWork) -> Result<(), CudaError> {
        self.batcher.perform(work, |all| self.launch(all))
    }

    /// Remembers that the GPU failed: what clients could not do because of that is not their fault.
    pub(crate) fn note_failure(&self, error: &CudaError) {
        self.batcher.note_failure(error);
    }

    /// Whether the GPU failed since [`Self::take_failure`].
    pub(crate) fn has_failed(&self) -> bool {
        self.batcher.has_failed()
    }

    /// The first failure since the last call.
    pub(crate) fn take_failure(&self) -> Option<CudaError> {
        self.batcher.take_failure()
    }

    /// Launches all of it and waits.
    fn launch(&self, work: &[ClientWork]) -> Result<(), CudaError> {
        let context = self.device.context();
        context.bind_to_thread().map_err(CudaError::call("cuCtxSetCurrent"))?;
        let launched = self.enqueue(work);
        // Also after a failure: what was enqueued uses memory that is about to be given back.
        let waited = self.stream.synchronize().map_err(CudaError::call("a kernel"));
        launched.and(waited)
    }

    fn enqueue(&self, work: &[ClientWork]) -> Result<(), CudaError> {
        let groups = group(work);
        let jobs: Vec<u8> = groups.iter().flatten().flat_map(|client| client.job.iter().copied()).collect();
        let mut buffers = lock(&self.jobs);
        let buffers = match &mut *buffers {
            Some(buffers) if buffers.host.bytes() >= jobs.len() => buffers,
            other => {
                let (context, bytes) = (self.device.context(), 2 * jobs.len());
                let host = PinnedBuffer::new(context, bytes)?;
                other.insert(Jobs { host, device: DeviceBuffer::new(context, bytes)? })
            }
        };
        buffers.host.write(0, &jobs);
        let transfer = Transfer::new(&mut buffers.host, &buffers.device, 0..jobs.len());
        // SAFETY: the buffers are kept in `self.jobs`, which is locked until the stream has taken the copy into its order, and
        // written again only by the next launch, before which this one is waited for.
        unsafe { transfer.enqueue_upload(&self.stream)? };
        for upload in work.iter().filter_map(|client| client.upload) {
            // SAFETY: the client waits for the end of the stream, and keeps its buffers until then.
            unsafe { upload.enqueue_upload(&self.stream)? };
        }
        let mut address = buffers.device.address();
        for group in &groups {
            let Some(first) = group.first() else { continue };
            for clients in group.chunks(first.kernel.clients()) {
                // SAFETY: the jobs are there in this order, once the copy above is done, which is before on the same stream;
                // their addresses are as their clients promise; kernel and parameters are the group's.
                unsafe { first.kernel.launch(&self.stream, clients.len(), address, &first.parameters)? };
                address += clients.iter().map(|client| client.job.len() as u64).sum::<u64>();
            }
        }
        for download in work.iter().filter_map(|client| client.download) {
            // SAFETY: as for the uploads.
            unsafe { download.enqueue_download(&self.stream)? };
        }
        Ok(())
    }
}

/// Clients that can be in one launch.
fn group(work: &[ClientWork]) -> Vec<Vec<&ClientWork>> {
    let mut groups: Vec<Vec<&ClientWork>> = Vec::new();
    for client in work {
        let fits = |group: &&mut Vec<&ClientWork>| {
            group.first().is_some_and(|first| {
                Arc::ptr_eq(&first.kernel, &client.kernel) && first.parameters == client.parameters
            })
        };
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(client),
            None => groups.push(vec![client]),
        }
    }
    groups
}
