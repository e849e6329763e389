/* The wall clock of one process, moved by as many microseconds as a file says at that moment (LD_PRELOAD). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *moved;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("BOREALIS_MOVED_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    void *at = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *moved, PROT_READ, MAP_SHARED, file, 0);
    moved = at == MAP_FAILED ? NULL : at;
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
}

int clock_gettime(clockid_t id, struct timespec *out) {
    int said = real(id, out);
    if (said || !moved || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return said;
    int64_t ns = out->tv_nsec + *moved % 1000000 * 1000;
    out->tv_sec += *moved / 1000000 + (ns >= 1000000000) - (ns < 0);
    out->tv_nsec = ns + (ns < 0 ? 1000000000 : ns >= 1000000000 ? -1000000000 : 0);
    return 0;
}

int gettimeofday(struct timeval *out, void *zone) {
    struct timespec now;
    int said = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return said;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

/* Waits until a time by the wall clock are the kernel's, which knows nothing of this. A time by the monotonic clock is
   that since the machine started, and so less than 30 years. */
static struct timespec unmoved(const struct timespec *at) {
    struct timespec by = *at;
    if (!moved || by.tv_sec < 1000000000) return by;
    int64_t us = by.tv_sec * 1000000 + by.tv_nsec / 1000 - *moved;
    by.tv_sec = us / 1000000;
    by.tv_nsec = us % 1000000 * 1000 + by.tv_nsec % 1000;
    return by;
}

int pthread_cond_timedwait(pthread_cond_t *of, pthread_mutex_t *with, const struct timespec *until) {
    static int (*waits)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!waits) waits = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!waits) waits = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    struct timespec by = unmoved(until);
    return waits(of, with, &by);
}

int cnd_timedwait(cnd_t *of, mtx_t *with, const struct timespec *until) {
    static int (*waits)(cnd_t *, mtx_t *, const struct timespec *);
    if (!waits) waits = dlsym(RTLD_NEXT, "cnd_timedwait");
    struct timespec by = unmoved(until);
    return waits(of, with, &by);
}

int sem_timedwait(sem_t *of, const struct timespec *until) {
    static int (*waits)(sem_t *, const struct timespec *);
    if (!waits) waits = dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec by = unmoved(until);
    return waits(of, &by);
}
