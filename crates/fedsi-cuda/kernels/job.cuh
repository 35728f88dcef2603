// What a training kernel is given: the structs of src/training/job.rs, field by field.

struct Job {
    float* values;
    const float* inputs;
    const void* targets;
    const int* batches;
    const float* prior_mean;
    const float* prior_weight;
    float* workspace;
    int* counter;
    float* losses;
    unsigned long long noise_key;
    int steps;
    int batch_stride;
};
static_assert(sizeof(Job) == 88, "as in Rust");

struct Settings {
    float rate;
    float beta1;
    float beta2;
    float epsilon;
    float momentum;
    float precision;
    float weight_noise;
    float convolution_noise;
};
static_assert(sizeof(Settings) == 32, "as in Rust");
