/* Shifts the wall clock of one process by what a file says; the monotonic clock stays. For LD_PRELOAD.
 *
 * CHAOS_CLOCK names a file of three native 64-bit integers: an offset in nanoseconds, a rate in parts per billion, and
 * the monotonic instant in nanoseconds from which the rate counts (tests/chaos/harness/clock.py writes them).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define SLICE 20000000LL
/* No machine has been up for thirty years: what is later is an instant of the wall clock. */
#define WALL_FROM_S 946684800LL

static volatile int64_t *setting;

__attribute__((constructor)) static void open_setting(void) {
    const char *name = getenv("CHAOS_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *page = mmap(NULL, 3 * sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED)
        setting = page;
    close(file);
}

static int64_t now(clockid_t clock) {
    struct timespec at;
    syscall(SYS_clock_gettime, clock, &at);
    return at.tv_sec * SECOND + at.tv_nsec;
}

static int64_t offset(void) {
    if (!setting)
        return 0;
    int64_t rate = setting[1];
    return setting[0] + (rate ? (int64_t)((double)(now(CLOCK_MONOTONIC) - setting[2]) * (double)rate / 1e9) : 0);
}

static struct timespec split(int64_t ns) {
    struct timespec at = {.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
    return at;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return syscall(SYS_clock_gettime, clock, at);
    *at = split(now(CLOCK_REALTIME) + offset());
    return 0;
}

int timespec_get(struct timespec *at, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, at) == 0 ? base : 0;
}

int gettimeofday(struct timeval *at, void *zone) {
    (void)zone;
    int64_t us = (now(CLOCK_REALTIME) + offset()) / 1000;
    at->tv_sec = us / 1000000;
    at->tv_usec = us % 1000000;
    return 0;
}

time_t time(time_t *at) {
    time_t seconds = (now(CLOCK_REALTIME) + offset()) / SECOND;
    if (at)
        *at = seconds;
    return seconds;
}

/* A wait until an instant of the wall clock. As in a kernel whose clock is set, it ends when that clock gets there: sooner
 * or later than was meant, if the clock is stepped meanwhile. So it looks at the clock again every few milliseconds. */
static int wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    int64_t wanted = until->tv_sec * SECOND + until->tv_nsec;
    for (;;) {
        int64_t kernel = now(CLOCK_REALTIME), left = wanted - kernel - offset();
        struct timespec slice = split(kernel + (left < SLICE ? left : SLICE));
        int end = pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, &slice);
        if (end != ETIMEDOUT || left <= SLICE)
            return end;
    }
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    if (until->tv_sec < WALL_FROM_S)
        return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, until);
    return wait_until(condition, mutex, until);
}

/* librdkafka waits with the condition variables of C11, which are those of POSIX in glibc. */
int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
    int end = wait_until((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until);
    return end == 0 ? thrd_success : end == ETIMEDOUT ? thrd_timedout : thrd_error;
}
