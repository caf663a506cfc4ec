// SPDX-License-Identifier: GPL-2.0-only
// A stand-in for libnvidia-ml.so.1 by its documented ABI (nvml.h): what it tells is set by the test through `standin`.
#include <stdint.h>
#include <string.h>

typedef struct { unsigned int gpu, memory; } nvmlUtilization_t;
typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

struct {
    int init, use;              // codes that the functions return
    unsigned int devices, busy; // GPUs, and per cent of each
    unsigned int computes, draws;
    nvmlProcessInfo_t compute[4], draw[4];
    int begun; // how often it was begun less how often it was shut down
} standin;

int nvmlInit_v2(void)
{
    if (!standin.init)
        standin.begun++;
    return standin.init;
}

int nvmlShutdown(void)
{
    standin.begun--;
    return 0;
}

const char *nvmlErrorString(int code)
{
    return code == 18 ? "Driver/library version mismatch" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned int *count)
{
    *count = standin.devices;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
    if (index >= standin.devices)
        return 2;
    *device = (void *)(uintptr_t)(0x7f0012345000 + index); // a pointer, which an int would cut
    return 0;
}

static int known(void *device)
{
    return (uintptr_t)device - 0x7f0012345000 < standin.devices;
}

int nvmlDeviceGetUtilizationRates(void *device, nvmlUtilization_t *told)
{
    if (standin.use || !known(device))
        return standin.use ? standin.use : 2;
    told->gpu = standin.busy;
    told->memory = 1;
    return 0;
}

static int list(void *device, unsigned int *count, nvmlProcessInfo_t *into, unsigned int have, nvmlProcessInfo_t *from)
{
    if (!known(device))
        return 2;
    if (*count < have)
        return 7;
    memcpy(into, from, have * sizeof *from);
    *count = have;
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, nvmlProcessInfo_t *into)
{
    return list(device, count, into, standin.computes, standin.compute);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned int *count, nvmlProcessInfo_t *into)
{
    return list(device, count, into, standin.draws, standin.draw);
}
