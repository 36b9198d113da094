#include "agents/gpu/gpu_dev.h"

#include <poll.h>
#include <stdlib.h>

#include "common/util.h"

enum {
    RESULT_BYTES = 16,
    SHARE_OF_FREE = 8,
    POLL_SPINS = 2000, /* queries before the thread starts to sleep between them */
    POLL_MS = 1
};
static const uint64_t spin_limit_ns = 2000000000; /* far above the time that queuing takes */

int gpu_dev_check(struct gpu_dev *dev, int result, const char *what, struct err *err)
{
    if (result == CUDA_SUCCESS)
        return 0;
    if (!dev->cause)
        dev->cause = cuda_cause(result);
    return cuda_fail(&dev->cuda, result, what, err);
}

static int load_kernels(struct gpu_dev *dev, struct err *err)
{
    AUTO(free_str) char *text = ptx_module();
    int result = dev->cuda.module_load(&dev->module, text, 0, NULL, NULL);
    if (gpu_dev_check(dev, result, "cuModuleLoadDataEx (compiling muster's kernels)", err) != 0)
        return -1;
    for (size_t i = 0; i < PTX_KERNEL__COUNT; i++) {
        result = dev->cuda.module_function(&dev->kernels[i], dev->module, ptx_kernels[i]);
        if (gpu_dev_check(dev, result, ptx_kernels[i], err) != 0)
            return -1;
    }
    return 0;
}

static int read_attributes(struct gpu_dev *dev, struct err *err)
{
    int major = 0, minor = 0;
    if (cuda_attribute(&dev->cuda, dev->device, CUDA_ATTRIBUTE_SM_COUNT, &dev->sm_count, err) ||
        cuda_attribute(&dev->cuda, dev->device, CUDA_ATTRIBUTE_CAPABILITY_MAJOR, &major, err) ||
        cuda_attribute(&dev->cuda, dev->device, CUDA_ATTRIBUTE_CAPABILITY_MINOR, &minor, err))
        return -1;
    dev->capability = major * 10 + minor;
    if (dev->sm_count < 1 || dev->sm_count > PTX_MAX_SMS)
        return err_set(err, ERR_ENV, "the GPU reports %d multiprocessors", dev->sm_count);
    return 0;
}

static int open_streams(struct gpu_dev *dev, struct err *err)
{
    struct cuda *c = &dev->cuda;
    void *flag = NULL;
    if (gpu_dev_check(dev, c->stream_create(&dev->stream, CUDA_STREAM_NON_BLOCKING),
                      "cuStreamCreate", err) ||
        gpu_dev_check(dev, c->stream_create(&dev->second, CUDA_STREAM_NON_BLOCKING),
                      "cuStreamCreate", err) ||
        gpu_dev_check(dev, c->event_create(&dev->start, 0), "cuEventCreate", err) ||
        gpu_dev_check(dev, c->event_create(&dev->stop, 0), "cuEventCreate", err) ||
        gpu_dev_check(dev, c->event_create(&dev->joined, 0), "cuEventCreate", err) ||
        gpu_dev_check(
            dev, c->host_alloc(&flag, sizeof *dev->flag, CUDA_HOST_PORTABLE | CUDA_HOST_DEVICEMAP),
            "cuMemHostAlloc", err))
        return -1;
    dev->flag = flag;
    if (gpu_dev_check(dev, c->host_device_ptr(&dev->flag_device, flag, 0),
                      "cuMemHostGetDevicePointer", err))
        return -1;
    return gpu_dev_alloc(dev, &dev->result, RESULT_BYTES, err);
}

static int open_device(struct gpu_dev *dev, const char *bdf, struct err *err)
{
    if (cuda_find(&dev->cuda, bdf, &dev->device, err) != 0) {
        dev->cause = cuda_cause(err->native);
        return -1;
    }
    if (read_attributes(dev, err) != 0)
        return -1;
    int result = dev->cuda.ctx_retain(&dev->ctx, dev->device);
    if (gpu_dev_check(dev, result, "cuDevicePrimaryCtxRetain", err) != 0) {
        dev->ctx = NULL;
        return -1;
    }
    if (gpu_dev_check(dev, dev->cuda.ctx_set(dev->ctx), "cuCtxSetCurrent", err) != 0 ||
        load_kernels(dev, err) != 0)
        return -1;
    return open_streams(dev, err);
}

int gpu_dev_open(struct gpu_dev *dev, const char *bdf, int64_t deadline_ms, struct err *err)
{
    *dev = (struct gpu_dev){.deadline_ms = deadline_ms};
    if (cuda_open(&dev->cuda, &dev->cause, err) != 0)
        return -1;
    if (open_device(dev, bdf, err) == 0)
        return 0;
    gpu_dev_close(dev);
    return -1;
}

void gpu_dev_close(struct gpu_dev *dev)
{
    const struct cuda *c = &dev->cuda;
    const char *cause = dev->cause;
    if (dev->ctx) {
        gpu_dev_free(dev, &dev->result);
        if (dev->flag)
            (void)c->host_free((void *)(uintptr_t)dev->flag);
        struct cuda_event *events[] = {dev->start, dev->stop, dev->joined};
        for (size_t i = 0; i < ARRAY_LEN(events); i++)
            if (events[i])
                (void)c->event_destroy(events[i]);
        if (dev->stream)
            (void)c->stream_destroy(dev->stream);
        if (dev->second)
            (void)c->stream_destroy(dev->second);
        if (dev->module)
            (void)c->module_unload(dev->module);
        (void)c->ctx_release(dev->device);
    }
    cuda_close(&dev->cuda);
    *dev = (struct gpu_dev){.cause = cause};
}

int gpu_dev_launch(struct gpu_dev *dev, enum ptx_kernel kernel, unsigned blocks, unsigned threads,
                   unsigned shared_bytes, void **args, struct err *err)
{
    int result = dev->cuda.launch(dev->kernels[kernel], blocks, 1, 1, threads, 1, 1, shared_bytes,
                                  dev->stream, args, NULL);
    return gpu_dev_check(dev, result, ptx_kernels[kernel], err);
}

static int wait_stream(struct gpu_dev *dev, struct cuda_stream *stream, struct err *err)
{
    for (unsigned i = 0;; i++) {
        int result = dev->cuda.stream_query(stream);
        if (result != CUDA_NOT_READY)
            return gpu_dev_check(dev, result, "waiting for the GPU", err);
        if (i < POLL_SPINS)
            continue;
        if (now_ms() >= dev->deadline_ms) {
            dev->cause = "gpu-hang";
            return err_set(err, ERR_TIMEOUT, "the GPU did not finish what was queued in time");
        }
        poll(NULL, 0, POLL_MS);
    }
}

int gpu_dev_wait(struct gpu_dev *dev, struct err *err)
{
    return wait_stream(dev, dev->stream, err) || wait_stream(dev, dev->second, err) ? -1 : 0;
}

int gpu_dev_buffer_bytes(struct gpu_dev *dev, size_t max_bytes, size_t align_bytes, size_t *bytes,
                         struct err *err)
{
    size_t free_bytes = 0, total_bytes = 0;
    int result = dev->cuda.mem_info(&free_bytes, &total_bytes);
    if (gpu_dev_check(dev, result, "cuMemGetInfo", err) != 0)
        return -1;
    size_t share = free_bytes / SHARE_OF_FREE;
    size_t got = (share < max_bytes ? share : max_bytes) / align_bytes * align_bytes;
    if (got == 0) {
        dev->cause = "gpu-busy";
        return err_set(err, ERR_ENV, "only %zu bytes of the GPU's memory are free", free_bytes);
    }
    *bytes = got;
    return 0;
}

int gpu_dev_alloc(struct gpu_dev *dev, uint64_t *ptr, size_t bytes, struct err *err)
{
    uint64_t got = 0;
    int result = dev->cuda.mem_alloc(&got, bytes);
    if (result != CUDA_SUCCESS) {
        AUTO(free_str) char *what = str_printf("cuMemAlloc of %zu bytes", bytes);
        return gpu_dev_check(dev, result, what, err);
    }
    *ptr = got;
    return 0;
}

void gpu_dev_free(struct gpu_dev *dev, uint64_t *ptr)
{
    if (*ptr)
        (void)dev->cuda.mem_free(*ptr);
    *ptr = 0;
}

static unsigned grid(const struct gpu_dev *dev)
{
    return (unsigned)dev->sm_count * GPU_DEV_BLOCKS_PER_SM;
}

int gpu_dev_result_get(struct gpu_dev *dev, uint64_t words[2], struct err *err)
{
    int result = dev->cuda.copy_to_host(words, dev->result, RESULT_BYTES, dev->stream);
    if (gpu_dev_check(dev, result, "cuMemcpyDtoHAsync", err) != 0)
        return -1;
    return gpu_dev_wait(dev, err);
}

int gpu_dev_result_set(struct gpu_dev *dev, const uint64_t words[2], struct err *err)
{
    int result = dev->cuda.copy_to_device(dev->result, words, RESULT_BYTES, dev->stream);
    if (gpu_dev_check(dev, result, "cuMemcpyHtoDAsync", err) != 0)
        return -1;
    return gpu_dev_wait(dev, err);
}

int gpu_dev_fill(struct gpu_dev *dev, uint64_t ptr, size_t bytes, uint32_t seed, uint32_t *sum,
                 struct err *err)
{
    uint64_t words[2] = {0, 0}, vectors = bytes / PTX_VECTOR_BYTES;
    void *args[] = {&ptr, &vectors, &seed, &dev->result};
    if (gpu_dev_result_set(dev, words, err) ||
        gpu_dev_launch(dev, PTX_FILL, grid(dev), GPU_DEV_THREADS, 0, args, err) ||
        gpu_dev_result_get(dev, words, err))
        return -1;
    if (sum)
        *sum = (uint32_t)words[0];
    return 0;
}

int gpu_dev_verify(struct gpu_dev *dev, uint64_t ptr, size_t bytes, uint32_t seed,
                   struct gpu_dev_diff *diff, struct err *err)
{
    uint64_t words[2] = {0, UINT64_MAX}, vectors = bytes / PTX_VECTOR_BYTES;
    void *args[] = {&ptr, &vectors, &seed, &dev->result};
    if (gpu_dev_result_set(dev, words, err) ||
        gpu_dev_launch(dev, PTX_VERIFY, grid(dev), GPU_DEV_THREADS, 0, args, err) ||
        gpu_dev_result_get(dev, words, err))
        return -1;
    *diff = (struct gpu_dev_diff){.compared_bytes = vectors * PTX_VECTOR_BYTES,
                                  .wrong_words = words[0],
                                  .first_bad_byte = words[0] ? words[1] * sizeof(uint32_t) : 0};
    return 0;
}

static int queue(struct gpu_dev *dev, gpu_dev_work *work, void *ctx, unsigned count,
                 struct err *err)
{
    for (unsigned i = 0; i < count; i++)
        if (work(dev, ctx, err) != 0)
            return -1;
    return 0;
}

static int queue_timed(struct gpu_dev *dev, gpu_dev_work *work, void *ctx, unsigned warm_up,
                       unsigned count, struct err *err)
{
    uint64_t limit_ns = spin_limit_ns;
    void *args[] = {&dev->flag_device, &limit_ns};
    struct cuda *c = &dev->cuda;
    if (gpu_dev_launch(dev, PTX_SPIN, 1, 1, 0, args, err) || queue(dev, work, ctx, warm_up, err) ||
        gpu_dev_check(dev, c->event_record(dev->start, dev->stream), "cuEventRecord", err) ||
        queue(dev, work, ctx, count, err))
        return -1;
    return gpu_dev_check(dev, c->event_record(dev->stop, dev->stream), "cuEventRecord", err);
}

int gpu_dev_time(struct gpu_dev *dev, gpu_dev_work *work, void *ctx, unsigned warm_up,
                 unsigned count, double *seconds, struct err *err)
{
    *dev->flag = 0;
    int64_t began_ns = now_ns();
    int rc = queue_timed(dev, work, ctx, warm_up, count, err);
    bool in_time = now_ns() - began_ns < (int64_t)spin_limit_ns;
    *dev->flag = 1; /* also after a failure: nothing may go on spinning */
    if (rc != 0 || gpu_dev_wait(dev, err) != 0)
        return -1;
    if (!in_time)
        return err_set(err, ERR_TIMEOUT,
                       "queuing the work took longer than the GPU was held back "
                       "for it: the host is overloaded");
    float ms = 0;
    int result = dev->cuda.event_elapsed(&ms, dev->start, dev->stop);
    if (gpu_dev_check(dev, result, "cuEventElapsedTime", err) != 0)
        return -1;
    if (!(ms > 0))
        return err_set(err, ERR_ENV, "the events of a timed run are %g ms apart", (double)ms);
    *seconds = (double)ms / 1000;
    return 0;
}

int gpu_dev_time_wall(struct gpu_dev *dev, gpu_dev_work *work, void *ctx, unsigned warm_up,
                      unsigned count, double *seconds, struct err *err)
{
    if (queue(dev, work, ctx, warm_up, err) != 0 || gpu_dev_wait(dev, err) != 0)
        return -1;
    int64_t began_ns = now_ns();
    if (queue(dev, work, ctx, count, err) != 0 || gpu_dev_wait(dev, err) != 0)
        return -1;
    *seconds = (double)(now_ns() - began_ns) / 1e9;
    return 0;
}
