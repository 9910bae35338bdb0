/* Between processes: what the mpi executor needs of a message layer. A C interface with a version, so that the program starts and says what
 * it lacks where the plugin, or the library it stands on, is not there. All calls from one thread at a time. */
#ifndef ORRERY_TRANSPORT_H
#define ORRERY_TRANSPORT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ORRERY_TRANSPORT_VERSION 2

typedef struct OrreryTransport {
    int version;                 /* ORRERY_TRANSPORT_VERSION */
    int rank, size;
    const char* library;         /* "Open MPI v4.1.4" */
    /* Messages between two ranks under one tag keep their order. A request is freed by the test that finds it done. */
    void* (*send)(int to, int tag, const void* data, size_t bytes);
    void* (*receive)(int from, int tag, void* data, size_t bytes);
    int (*done)(void* request);
    void (*barrier)(void);
    void (*abort_all)(int code); /* ends every rank's process; does not return */
    void (*finish)(void);
} OrreryTransport;

/* The plugin's only symbol: begins, and returns a transport that lasts until the process ends; NULL, with a reason in `why`, where it cannot. */
typedef const OrreryTransport* (*OrreryOpenTransport)(int version, char* why, size_t why_bytes);
#define ORRERY_OPEN_TRANSPORT "orrery_open_transport"

#ifdef __cplusplus
}
#endif
#endif
