// Whole messages over a stream socket. A signal does not end them: a process that is told to stop still hears its peers.
#pragma once

#include <cerrno>
#include <cstddef>
#include <sys/socket.h>
#include <sys/types.h>

namespace orrery {

// False: the connection has ended, or its time (SO_RCVTIMEO) is over.
inline bool send_all(int socket, const void* data, std::size_t bytes) {
    for (const char* at = static_cast<const char*>(data); bytes > 0;) {
        const ssize_t sent = ::send(socket, at, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        at += sent;
        bytes -= static_cast<std::size_t>(sent);
    }
    return true;
}

inline bool receive_all(int socket, void* data, std::size_t bytes) {
    for (char* at = static_cast<char*>(data); bytes > 0;) {
        const ssize_t got = ::recv(socket, at, bytes, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        bytes -= static_cast<std::size_t>(got);
    }
    return true;
}

} // namespace orrery
