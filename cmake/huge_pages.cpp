// jemalloc reads this name. Plans are built and dropped many times; in pages of 2 MiB their memory is mapped with a fifth of the faults.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "thp:always";
}
