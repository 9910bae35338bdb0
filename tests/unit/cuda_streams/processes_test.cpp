// A process a GPU, as torchrun or mpirun start them: here each is a thread with a world, a store and a stand-in of its own. Do they find
// each other, train to the bit, and leave when one is gone?
#include "tests/unit/cuda_streams/fleet.hpp"

#include "exec/cuda/plugin.hpp"
#include "exec/mpi/processes.hpp"
#include "exec/queues/launch.hpp"
#include "exec/queues/sockets.hpp"
#include "exec/queues/talk.hpp"
#include "exec/queues/tcp_store.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <netinet/in.h>
#include <set>
#include <sys/resource.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>

namespace orrery::test {
namespace {

// The work of simexec in each process.
Fleet fleet_of(const World& world, int rank, std::shared_ptr<Store> store, double patience) {
    Fleet fleet;
    fleet.devices.push_back(std::make_unique<StandInGpu>(rank, world.machine));
    fleet.store = store;
    fleet.world_id = [store, rank, device = fleet.devices[0].get()] {
        WorldId id{};
        if (rank == 0) {
            device->world_id(id);
            store->set("world", std::string(id.begin(), id.end()));
        }
        const std::string text = wait_for(*store, "world", 20, {"rank 0 has no id"});
        std::copy(text.begin(), text.end(), id.begin());
        return id;
    };
    fleet.separate_memory = true;
    fleet.patience = patience;
    return fleet;
}

template <class F> void as_processes(int ranks, F&& work) {
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r) threads.emplace_back([&work, r] { work(r); });
}

TEST(Processes, TrainAsOneProcessDoes) {
    const Scenario scenario = agree::tiny({"strategy.data_parallel=2", "strategy.pipeline_parallel=2", "strategy.schedule=1f1b",
                                           "strategy.zero_stage=1", "training.gradient_clipping=0.1"});
    const agree::Trained serial = agree::train(scenario, {.steps = 3, .real = DType::fp32});
    fake::reset(4);
    fake::set_progress_polls(2);
    StoreServer server(0);
    std::vector<std::vector<double>> losses(4);
    std::vector<std::vector<OpTime>> records(4);
    as_processes(4, [&](int r) {
        const auto world = make_world(scenario, DType::fp32, {r});
        initialise(*world);
        const auto executor =
            queues_executor(*world, fleet_of(*world, r, std::make_shared<TcpStore>("127.0.0.1", server.port(), r, 10), 20));
        const int allocated = fake::live_allocations();
        for (int step = 0; step < 3; ++step) {
            load_batch(*world, {"", scenario.model.vocab_size, scenario.training.seed}, step);
            executor->step(step == 2 ? &records[r] : nullptr);
            losses[r].push_back(mean_loss(*world));
        }
        EXPECT_EQ(fake::live_allocations(), allocated) << "a step allocates";
    });
    for (const auto& of_rank : losses) EXPECT_EQ(of_rank, serial.losses);
    EXPECT_TRUE(fake::misuse().empty()) << fake::misuse().front();
    for (const auto& of_rank : records) { // one clock: no rank's step is elsewhere in time
        ASSERT_FALSE(of_rank.empty());
        EXPECT_LT(std::abs(of_rank.front().posted), 2'000'000'000);
    }
}

TEST(Processes, WithAnotherPlanAreRefused) {
    fake::reset(2);
    StoreServer server(0);
    std::vector<std::string> said(2);
    as_processes(2, [&](int r) {
        const Scenario scenario = agree::tiny({"strategy.data_parallel=2", r == 1 ? "model.layers=3" : "model.layers=2"});
        const auto world = make_world(scenario, DType::fp32, {r});
        try {
            queues_executor(*world, fleet_of(*world, r, std::make_shared<TcpStore>("127.0.0.1", server.port(), r, 10), 5));
        } catch (const LostPeer& e) { said[r] = e.what(); }
    });
    EXPECT_NE(said[0].find("rank 1 has plan"), std::string::npos) << said[0];
    EXPECT_NE(said[1].find("rank 0 has plan"), std::string::npos) << said[1];
}

// Libraries of another version sum in another order, or do not meet at all.
TEST(Processes, WithOtherLibrariesAreRefused) {
    const Scenario scenario = agree::tiny({"strategy.data_parallel=2"});
    fake::reset(2);
    StoreServer server(0);
    std::vector<std::string> said(2);
    as_processes(2, [&](int r) {
        const auto world = make_world(scenario, DType::fp32, {r});
        Fleet fleet = fleet_of(*world, r, std::make_shared<TcpStore>("127.0.0.1", server.port(), r, 10), 5);
        fleet.software = r == 0 ? "CUDA 13.0, NCCL 2.28.9" : "CUDA 13.0, NCCL 2.27.3";
        try {
            queues_executor(*world, std::move(fleet));
        } catch (const LostPeer& e) { said[r] = e.what(); }
    });
    EXPECT_NE(said[0].find("rank 1 has plan"), std::string::npos) << said[0];
    EXPECT_NE(said[0].find("NCCL 2.27.3"), std::string::npos) << said[0];
    EXPECT_NE(said[1].find("NCCL 2.28.9"), std::string::npos) << said[1];
    EXPECT_EQ(fake::live_streams() + fake::live_allocations(), 0);
}

// A process that is told to stop, or whose child has ended, is in the middle of an answer as often as not.
TEST(Sockets, ASignalEndsNoMessage) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const timeval patience{20, 0}; // with a limit of time the system does not go on by itself
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    static std::atomic<int> signals;
    signals = 0;
    struct sigaction counted {
    }, before{};
    counted.sa_handler = [](int) { ++signals; };
    counted.sa_flags = SA_RESTART;
    ASSERT_EQ(sigaction(SIGUSR1, &counted, &before), 0);
    std::array<char, 8> got{};
    bool whole = false;
    std::thread reader([&] { whole = receive_all(ends[0], got.data(), got.size()); });
    for (const char* part : {"abcd", "efgh"}) {
        const int so_far = signals;
        while (signals < so_far + 2) {
            pthread_kill(reader.native_handle(), SIGUSR1);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        EXPECT_TRUE(send_all(ends[1], part, 4));
    }
    reader.join();
    sigaction(SIGUSR1, &before, nullptr);
    EXPECT_TRUE(whole);
    EXPECT_EQ(std::string(got.data(), got.size()), "abcdefgh");
    ::close(ends[0]), ::close(ends[1]);
}

// Whoever finds the port and says anything harms nobody.
TEST(Processes, TheStoreOutlivesStrangers) {
    StoreServer server(0);
    TcpStore store("127.0.0.1", server.port(), 0, 10);
    store.set("k", "1");
    const auto text = [](const std::string& s) {
        const auto n = static_cast<std::uint32_t>(s.size());
        return std::string(reinterpret_cast<const char*>(&n), sizeof n) + s;
    };
    for (const std::string& said : {std::string("GET / HTTP/1.1\r\n\r\n"), "A" + text("k") + text("no number"), "A" + text("k") + text(""),
                                    "A" + text("k") + text("99999999999999999999"), std::string("S\xff\xff\xff\xff")}) {
        const int stranger = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_port = htons(static_cast<std::uint16_t>(server.port()));
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ASSERT_EQ(::connect(stranger, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
        EXPECT_TRUE(send_all(stranger, said.data(), said.size()));
        ::shutdown(stranger, SHUT_WR);
        char answer = 0;
        EXPECT_FALSE(receive_all(stranger, &answer, 1)); // it is shown out
        ::close(stranger);
    }
    EXPECT_EQ(store.add("k", 1), 1);
    EXPECT_EQ(store.get("k"), "1");
    EXPECT_FALSE(store.get(failed_key));
}

// Another job's ranks, which came to this one's port, are told so, and their going is nobody's loss.
TEST(Processes, AnotherJobsRanksAreShownOut) {
    StoreServer server(0, "torchrun, 4 processes, first");
    TcpStore store("127.0.0.1", server.port(), 0, 10, "torchrun, 4 processes, first");
    for (const std::string job : {"torchrun, 4 processes, second", ""}) {
        try {
            TcpStore stranger("127.0.0.1", server.port(), 3, 10, job);
            ADD_FAILURE() << "it was let in";
        } catch (const std::runtime_error& e) {
            const std::string said = e.what();
            EXPECT_NE(said.find("127.0.0.1:" + std::to_string(server.port())), std::string::npos) << said;
            EXPECT_NE(said.find("another job"), std::string::npos) << said;
            EXPECT_NE(said.find("ORRERY_PORT"), std::string::npos) << said;
        }
    }
    {
        TcpStore mine("127.0.0.1", server.port(), 3, 10, "torchrun, 4 processes, first");
        mine.set("k", "1");
        mine.vanish(); // whereas this one is missed
        for (int tries = 0; tries < 500 && !store.get(failed_key); ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(store.get("k"), "1");
    EXPECT_EQ(store.get(gone_key), "3");
}

// A launcher may not tell its jobs apart: a rank that has come already comes from another job, until it has left.
TEST(Processes, ASecondOfARankIsShownOut) {
    StoreServer server(0);
    TcpStore store("127.0.0.1", server.port(), 0, 10);
    for (int times = 0; times < 2; ++times) {
        TcpStore first("127.0.0.1", server.port(), 3, 10);
        EXPECT_THROW(TcpStore("127.0.0.1", server.port(), 3, 10), std::runtime_error);
        first.set("k", "1");
    }
    EXPECT_EQ(store.get("k"), "1");
    EXPECT_FALSE(store.get(failed_key));
}

// Rank 0 leaves last: whoever still asks is answered.
TEST(Processes, TheStoreSeesAllOff) {
    StoreServer server(0);
    TcpStore own("127.0.0.1", server.port(), 0, 10);
    auto late = std::make_unique<TcpStore>("127.0.0.1", server.port(), 1, 10);
    server.see_off(0, 0.05); // no longer than that
    std::atomic<bool> gone{false}, left{false};
    std::jthread waits([&] {
        server.see_off(0, 60);
        EXPECT_TRUE(gone);
        left = true;
    });
    for (int i = 0; i < 20; ++i) {
        EXPECT_FALSE(late->get("k"));
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_FALSE(left);
    gone = true;
    late.reset();
}

// One dies in its first step without a word: its connection ends, and the others leave though NCCL would wait for ever.
TEST(Processes, LeaveWhenOneIsGone) {
    const Scenario scenario = agree::tiny({"strategy.data_parallel=4", "strategy.zero_stage=1"});
    fake::reset(4);
    StoreServer server(0);
    std::vector<std::string> said(4);
    const auto began = std::chrono::steady_clock::now();
    as_processes(4, [&](int r) {
        const auto world = make_world(scenario, DType::fp32, {r});
        initialise(*world);
        auto store = std::make_shared<TcpStore>("127.0.0.1", server.port(), r, 10);
        try {
            const auto executor = queues_executor(*world, fleet_of(*world, r, store, 60));
            load_batch(*world, {"", scenario.model.vocab_size, 1}, 0);
            if (r == 2) {
                fake::hang_device(2, 0);
                store->vanish();
            }
            executor->step(nullptr);
        } catch (const LostPeer& e) { said[r] = e.what(); }
    });
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(), 10);
    for (int r : {0, 1, 3}) EXPECT_NE(said[r].find("the process of rank 2 is gone"), std::string::npos) << said[r];
    EXPECT_EQ(fake::live_streams() + fake::live_allocations(), 0);
}

// CUDA takes no more than so many launches ahead: a host thread that stands in one cannot look whether the others are still there. One
// process dies, and another thread sees it.
TEST(Processes, AFullQueueOfLaunchesBehindADeadPeerEndsTheProcess) {
    const auto stuck = [] {
        const Scenario scenario = agree::tiny({"strategy.data_parallel=2", "strategy.framework=fsdp2", "model.layers=4"});
        fake::reset(2);
        StoreServer server(0);
        as_processes(2, [&](int r) {
            const auto world = make_world(scenario, DType::fp32, {r});
            initialise(*world);
            auto store = std::make_shared<TcpStore>("127.0.0.1", server.port(), r, 10);
            Fleet fleet = fleet_of(*world, r, store, 60);
            fleet.last_resort = 150;
            const auto executor = queues_executor(*world, std::move(fleet));
            load_batch(*world, {"", scenario.model.vocab_size, 1}, 0);
            if (r == 1) {
                std::this_thread::sleep_for(std::chrono::seconds(1)); // the other has begun its step
                store->vanish();
                std::this_thread::sleep_for(std::chrono::seconds(60)); // its threads go with the process
            }
            fake::limit_launches(4);
            executor->step(nullptr);
        });
    };
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    // A process that ends because its own time is over does not say who is gone.
    EXPECT_EXIT(stuck(), testing::ExitedWithCode(exit_code_lost), "rank 0: its host thread does not come back .*process of rank 1 is gone");
}

// Communicators' memory is that of the plan's communicators and of the peers its ops exchange words with: no connection nobody needs.
TEST(Communicators, TakeMemoryForThePeersOfThePlan) {
    const auto taken = [](const std::vector<std::string>& fields) {
        const Scenario scenario = agree::tiny(fields);
        fake::reset(scenario.world_size());
        const auto world = make_world(scenario, DType::fp32);
        initialise(*world);
        const auto executor = queues_executor(*world, stand_ins(*world));
        std::map<std::string, std::int64_t> bytes;
        for (const CommunicatorMemory& c : executor->communicators(*world->ranks[0])) bytes[c.name] = c.bytes;
        return bytes;
    };
    constexpr std::int64_t made = fake::communicator_bytes, peer = fake::connection_bytes;
    const auto reduced = taken({"strategy.data_parallel=4"});
    EXPECT_EQ(reduced.at("world"), made);
    EXPECT_EQ(reduced.at("dp.reduce"), made); // sums alone
    EXPECT_EQ(reduced.size(), 2u);            // none for axes of one rank
    const auto staged = taken({"strategy.data_parallel=2", "strategy.pipeline_parallel=2", "strategy.schedule=1f1b"});
    std::int64_t exchanged = 0;
    for (const auto& [name, bytes] : staged) exchanged += bytes % made;
    EXPECT_GT(exchanged, 0);
    EXPECT_LE(exchanged, 2 * peer); // to the next stage, and from it
    const auto experts = taken({"strategy.data_parallel=4", "strategy.expert_parallel=4", "strategy.framework=megatron",
                                "model.moe.experts=4", "model.moe.top_k=2", "model.moe.expert_ffn_size=16"});
    EXPECT_EQ(experts.at("ep"), made + 3 * peer); // rows to every other
}

TEST(Store, CountsWaitsAndTellsTheTime) {
    StoreServer server(0);
    TcpStore a("localhost", server.port(), 0, 10), b("localhost", server.port(), 1, 10);
    EXPECT_EQ(a.get("key"), std::nullopt);
    a.set("key", "");
    EXPECT_EQ(b.get("key"), "");
    EXPECT_EQ(a.add("n", 2), 2);
    EXPECT_EQ(b.add("n", 3), 5);
    EXPECT_THROW(wait_for(b, "nobody sets this", 0.05, {"nobody has set it"}), StoreTimeout);
    std::jthread other([&] { barrier(b, "both", 2, 10); });
    barrier(a, "both", 2, 10);
    EXPECT_LT(std::abs(a.clock_offset()), 50'000'000); // the same clock, by a round trip
    a.set("gather 1 of 2", "x");
    a.set("gather 10 of 2", "y");
    b.forget("gather 1 ");
    EXPECT_EQ(a.get("gather 1 of 2"), std::nullopt);
    EXPECT_EQ(a.get("gather 10 of 2"), "y");
    b.forget("n");
    EXPECT_EQ(a.add("n", 1), 1);
}

// The store holds the current exchange and at most the one before it.
TEST(Talk, IsForgotten) {
    constexpr int ranks = 3;
    StoreServer server(0);
    std::vector<std::size_t> kept;
    as_processes(ranks, [&](int r) {
        Talk talk(std::make_shared<TcpStore>("127.0.0.1", server.port(), r, 10), r, ranks, 10);
        for (std::int64_t n = 0; n < 200; ++n) {
            const auto all = talk.gather({n, r});
            ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks));
            for (std::int64_t of = 0; of < ranks; ++of) EXPECT_EQ(all[of], (std::vector<std::int64_t>{n, of}));
            if (n % 10 == 0) {
                const auto said = talk.collect(std::string(static_cast<std::size_t>(r) << 19, 'x'));
                if (r == 0) { EXPECT_EQ(said[2].size(), std::size_t{2} << 19); }
                talk.meet();
            }
            if (r == 0) kept.push_back(server.kept());
        }
    });
    // A word of each rank and one of all, of this gather and of the next, and of a collection two pieces or three; a barrier.
    EXPECT_LE(std::ranges::max(kept), std::size_t{2 * (ranks + 1) + 3 * ranks + 2});
}

TEST(Talk, NamesWhoIsLate) {
    StoreServer server(0);
    std::vector<std::string> said(3);
    const auto talks = [&](int r, int gathers) {
        Talk talk(std::make_shared<TcpStore>("127.0.0.1", server.port(), r, 10), r, 4, 0.3);
        try {
            for (int i = 0; i < gathers; ++i) talk.gather({r});
        } catch (const StoreTimeout& e) { said[r] = e.what(); }
    };
    talks(0, 1);
    EXPECT_EQ(said[0], "rank 1 has not come within 0 s: was its process started?");
    EXPECT_THROW(barrier(*std::make_shared<TcpStore>("127.0.0.1", server.port(), 0, 10), "three", 3, 0.1), StoreTimeout);
    StoreServer later(0);
    std::string stands;
    as_processes(4, [&](int r) {
        auto store = std::make_shared<TcpStore>("127.0.0.1", later.port(), r, 10);
        Talk talk(store, r, 4, 2);
        talk.gather({r});
        if (r != 0) {
            if (r == 2) return;
            return store->set(std::string("gather 1 of ") + std::to_string(r), "0");
        }
        try {
            talk.gather({r});
        } catch (const StoreTimeout& e) { stands = e.what(); }
    });
    EXPECT_NE(stands.find("rank 2 has said nothing within 2 s"), std::string::npos) << stands;
}

TEST(Store, SaysWhereItLooksForRankZero) {
    try {
        TcpStore store("127.0.0.1", 1, 3, 0.1);
        ADD_FAILURE() << "there is a server";
    } catch (const StoreTimeout& e) {
        EXPECT_NE(std::string(e.what()).find("rank 3"), std::string::npos) << e.what();
        EXPECT_NE(std::string(e.what()).find("127.0.0.1:1"), std::string::npos) << e.what();
    }
}

// A machine that is down answers nothing: the system would try for two minutes, and patience ends before.
TEST(Store, WaitsForAnAddressNoLongerThanItsPatience) {
    const int deaf = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    ASSERT_EQ(::bind(deaf, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    ASSERT_EQ(::listen(deaf, 0), 0);
    ASSERT_EQ(::getsockname(deaf, reinterpret_cast<sockaddr*>(&at), &size), 0);
    std::vector<int> waiting; // as many as its queue takes: further ones are not answered
    for (int i = 0; i < 4; ++i) {
        waiting.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        ::connect(waiting.back(), reinterpret_cast<const sockaddr*>(&at), sizeof at);
    }
    const auto began = std::chrono::steady_clock::now();
    EXPECT_THROW(TcpStore("127.0.0.1", ntohs(at.sin_port), 1, 0.3), StoreTimeout);
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(), 60);
    for (const int s : waiting) ::close(s);
    ::close(deaf);
}

// A port of those that systems give to connections, where nobody listens yet: a socket may be given the very port that it asks for.
TEST(Store, IsNotMetByItself) {
    std::ifstream in("/proc/sys/net/ipv4/ip_local_port_range");
    int first = 0, last = 0;
    if (!(in >> first >> last)) GTEST_SKIP() << "no such range here";
    const int port = (first + last) / 2; // even and odd ones come in turn
    for (int i = 0; i < (last - first) + 200; ++i) EXPECT_THROW(TcpStore("127.0.0.1", port + i % 2, 1, 0), StoreTimeout);
}

// Files are short for a while: who calls then is answered later.
TEST(Store, GoesOnAcceptingAfterFilesWereShort) {
    StoreServer server(0);
    TcpStore store("127.0.0.1", server.port(), 0, 10);
    const int caller = ::socket(AF_INET, SOCK_STREAM, 0);
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const int next = ::dup(caller);
    ::close(next);
    const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(server.port()));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(caller, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(50)); // it is refused meanwhile
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    TcpStore late("127.0.0.1", server.port(), 1, 10);
    late.set("k", "1");
    EXPECT_EQ(store.get("k"), "1");
    ::close(caller);
}

using Variables = std::map<std::string, std::string>;

auto reading(const Variables& v) {
    return [&v](const char* name) { return v.contains(name) ? v.at(name).c_str() : nullptr; };
}
std::optional<LaunchedRank> rank_of(const Variables& v) { return launched_rank(reading(v)); }
MeetingPlace place_of(const Variables& v) { return meeting_place(rank_of(v).value(), reading(v)); }

TEST(Launch, ReadsTheLaunchersVariables) {
    EXPECT_FALSE(rank_of({}).has_value());
    const Variables v{{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "1234"}};
    const auto torch = rank_of(v);
    ASSERT_TRUE(torch.has_value());
    EXPECT_EQ(torch->rank, 5);
    EXPECT_EQ(torch->local_rank, 1);
    EXPECT_EQ(place_of(v).host, "node0");
    EXPECT_EQ(place_of(v).port, 1234);
    EXPECT_EQ(rank_of({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}})->by, "Open MPI");
    EXPECT_THROW(rank_of({{"RANK", "8"}, {"WORLD_SIZE", "8"}}), std::runtime_error);
    EXPECT_THROW(rank_of({{"RANK", "x"}, {"WORLD_SIZE", "8"}}), std::runtime_error);
}

// Kubernetes sets MASTER_PORT for a service of that name: that harms whoever needs no port as little as a list of nodes nobody can read.
TEST(Launch, ReadsThePlaceWhereRanksMeetAlone) {
    for (const std::string port : {"tcp://10.0.0.1:23", "", "0", "65536"}) {
        const Variables v{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", port}};
        EXPECT_EQ(rank_of(v)->rank, 1);
        EXPECT_THROW(place_of(v), std::runtime_error) << port;
    }
    const Variables v{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_NODELIST", "gpu[1"}};
    EXPECT_EQ(rank_of(v)->size, 2);
    EXPECT_THROW(place_of(v), std::runtime_error);
}

// torchrun's agent listens on MASTER_PORT itself.
TEST(Launch, LeavesTheAgentItsPort) {
    Variables v = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1234"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
    EXPECT_EQ(place_of(v).port, 1235);
    v["TORCHELASTIC_USE_AGENT_STORE"] = "False";
    EXPECT_EQ(place_of(v).port, 1234);
    v["ORRERY_PORT"] = "77";
    EXPECT_EQ(place_of(v).port, 77);
}

TEST(Launch, FindsSlurmsFirstNode) {
    EXPECT_EQ(first_host("gpu[03-05,9],login"), "gpu03");
    EXPECT_EQ(first_host("gpu[7,9-11]"), "gpu7");
    EXPECT_EQ(first_host("a1,b[2-3]"), "a1");
    EXPECT_EQ(first_host("rack[1-2]n0.site"), "rack1n0.site");
    EXPECT_THROW(first_host("gpu[3"), std::runtime_error);
    Variables v = {{"SLURM_PROCID", "3"},  {"SLURM_NTASKS", "16"}, {"SLURM_STEP_NUM_TASKS", "4"},
                   {"SLURM_LOCALID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_NODELIST", "gpu[03-04]"}};
    EXPECT_EQ(place_of(v).host, "gpu03");
    EXPECT_EQ(rank_of(v)->size, 4);
    EXPECT_EQ(rank_of(v)->local_rank, 1);
    v["SLURM_STEP_ID"] = "4294967290"; // a shell of salloc
    EXPECT_FALSE(rank_of(v).has_value());
    v.erase("SLURM_STEP_ID"); // a batch script
    EXPECT_FALSE(rank_of(v).has_value());
}

// Jobs that share a node, and steps that share a job, meet elsewhere, and are told apart where they do not.
TEST(Launch, EachOfSlurmsStepsHasItsPort) {
    const auto step = [](int job, int number) {
        return Variables{
            {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", std::to_string(job)}, {"SLURM_STEP_ID", std::to_string(number)}};
    };
    std::set<int> ports;
    std::set<std::string> jobs;
    for (int job = 70999990; job < 71000010; ++job)
        for (int n = 0; n < 3; ++n) {
            const int port = place_of(step(job, n)).port;
            EXPECT_GE(port, 20000);
            EXPECT_LT(port, 30000);
            ports.insert(port);
            jobs.insert(rank_of(step(job, n))->job);
        }
    EXPECT_EQ(ports.size(), 60u);
    EXPECT_EQ(jobs.size(), 60u);
    Variables named = step(71, 0);
    named["MASTER_PORT"] = "29501";
    EXPECT_EQ(place_of(named).port, 29501);
    named.erase("SLURM_JOB_ID");
    named.erase("MASTER_PORT");
    EXPECT_EQ(place_of(named).port, 29500);
}

// srun --mpi=pmi2 sets PMI's variables too; Slurm's own say more. A process that MPICH's mpiexec started inside a job is not Slurm's.
TEST(Launch, SlurmsPmiIsSlurm) {
    Variables v = {{"SLURM_PROCID", "5"},  {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "71"}, {"SLURM_STEP_ID", "2"},
                   {"SLURM_LOCALID", "1"}, {"PMI_RANK", "5"},     {"PMI_SIZE", "8"},      {"PMI_JOBID", "71.2"}};
    EXPECT_EQ(rank_of(v)->by, "Slurm");
    EXPECT_EQ(rank_of(v)->local_rank, 1);
    v.erase("PMI_JOBID");
    EXPECT_EQ(rank_of(v)->by, "PMI");
}

TEST(Launch, TellsCudaHowManyStreamsThereAre) {
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    prepare_cuda();
    EXPECT_STREQ(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
    EXPECT_STREQ(getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), "1");
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1); // a user's own setting stands
    prepare_cuda();
    EXPECT_STREQ(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "1");
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}

} // namespace
} // namespace orrery::test
