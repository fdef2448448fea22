// The 1024-node torus on SimGrid's S4U interface, for a comparison of speed and of latency: 16x16 switches, four hosts
// each, full-duplex links (one SimGrid link a direction), one actor a host that sends messages of 32 KiB at exponential
// intervals to the host four hops away in a straight line. Hosts and NICs cost nothing; links share by max-min fairness
// (model CM02 with every correction factor off).
//
// Usage: torus RATE SECONDS [LATENCY_US [SEED]]
//   RATE        messages a second a host
//   SECONDS     simulated time in which messages are sent; those under way are carried to their end
//   LATENCY_US  of each link, default 4.3
// Prints one JSON object.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>
#include <simgrid/version.h>
#include <xbt/log.h>

namespace sg4 = simgrid::s4u;

namespace {

constexpr int SIDE = 16;
constexpr int HOSTS_A_SWITCH = 4;
constexpr int HOSTS = SIDE * SIDE * HOSTS_A_SWITCH;
constexpr int DISTANCE = 4;
constexpr int DIRECTIONS = 4;
constexpr double LINK_BYTES_PER_SECOND = 856e6 / 8;
constexpr uint64_t MESSAGE_BYTES = 32 * 1024;

// SplitMix64 seeded by the host: one independent stream each, and no dependence on a library's generator.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next()
    {
        uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }

    double exponential(double mean)
    {
        const double uniform = static_cast<double>(next() >> 11) * 0x1.0p-53;
        return -mean * std::log1p(-uniform);
    }

private:
    uint64_t state_;
};

struct Latencies {
    uint64_t count = 0;
    double mean = 0;
    double squares = 0;

    void add(double value)
    {
        count++;
        const double difference = value - mean;
        mean += difference / static_cast<double>(count);
        squares += difference * (value - mean);
    }
};

int wrap(int coordinate) { return (coordinate % SIDE + SIDE) % SIDE; }

int switch_at(int x, int y) { return wrap(y) * SIDE + wrap(x); }

constexpr int STEP_X[DIRECTIONS] = {1, -1, 0, 0};
constexpr int STEP_Y[DIRECTIONS] = {0, 0, 1, -1};

int target_of(int host, int direction)
{
    const int own = host / HOSTS_A_SWITCH;
    const int x = own % SIDE + DISTANCE * STEP_X[direction];
    const int y = own / SIDE + DISTANCE * STEP_Y[direction];
    return switch_at(x, y) * HOSTS_A_SWITCH + host % HOSTS_A_SWITCH;
}

std::vector<sg4::Host*> build_torus(double link_latency_s)
{
    sg4::NetZone* zone = sg4::create_full_zone("torus");
    const auto link = [&](const std::string& name) {
        return zone->create_link(name, LINK_BYTES_PER_SECOND)
            ->set_latency(link_latency_s)
            ->set_sharing_policy(sg4::Link::SharingPolicy::SHARED)
            ->seal();
    };
    std::vector<sg4::Host*> hosts;
    std::vector<const sg4::Link*> up;
    std::vector<const sg4::Link*> down;
    for (int host = 0; host < HOSTS; host++) {
        hosts.push_back(zone->create_host("h" + std::to_string(host), 1e9)->seal());
        up.push_back(link("up" + std::to_string(host)));
        down.push_back(link("down" + std::to_string(host)));
    }
    std::vector<const sg4::Link*> mesh;
    for (int from = 0; from < SIDE * SIDE; from++) {
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            mesh.push_back(link("mesh" + std::to_string(from) + "-" + std::to_string(direction)));
        }
    }
    for (int source = 0; source < HOSTS; source++) {
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            std::vector<const sg4::Link*> path{up[source]};
            int x = source / HOSTS_A_SWITCH % SIDE;
            int y = source / HOSTS_A_SWITCH / SIDE;
            for (int hop = 0; hop < DISTANCE; hop++) {
                path.push_back(mesh[switch_at(x, y) * DIRECTIONS + direction]);
                x += STEP_X[direction];
                y += STEP_Y[direction];
            }
            const int target = target_of(source, direction);
            path.push_back(down[target]);
            std::vector<sg4::LinkInRoute> route;
            for (const sg4::Link* each : path) {
                route.emplace_back(each);
            }
            zone->add_route(hosts[source]->get_netpoint(), hosts[target]->get_netpoint(), nullptr, nullptr, route,
                            false);
        }
    }
    zone->seal();
    return hosts;
}

} // namespace

int main(int argc, char** argv)
{
    xbt_log_control_set("root.thres:warning");
    sg4::Engine engine(&argc, argv);
    if (argc < 3) {
        std::fprintf(stderr, "usage: %s RATE SECONDS [LATENCY_US [SEED]]\n", argv[0]);
        return 1;
    }
    const double rate = std::atof(argv[1]);
    const double until_s = std::atof(argv[2]);
    const double link_latency_s = (argc > 3 ? std::atof(argv[3]) : 4.3) * 1e-6;
    const uint64_t seed = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1;

    sg4::Engine::set_config("network/model:CM02");
    sg4::Engine::set_config("network/TCP-gamma:0");
    sg4::Engine::set_config("network/crosstraffic:0");
    sg4::Engine::set_config("network/bandwidth-factor:1");
    sg4::Engine::set_config("network/latency-factor:1");
    sg4::Engine::set_config("network/weight-S:0");
    sg4::Engine::set_config("contexts/stack-size:64");

    const std::vector<sg4::Host*> hosts = build_torus(link_latency_s);
    Latencies latencies;
    const auto record = [&latencies](const sg4::Comm& message) {
        latencies.add((message.get_finish_time() - message.get_start_time()) * 1e6);
    };
    for (int host = 0; host < HOSTS; host++) {
        sg4::Actor::create("application", hosts[host], [=, &hosts] {
            Random random(seed * 0x100000001b3ULL + static_cast<uint64_t>(host) * 0x632be59bd9b4e019ULL);
            std::vector<sg4::CommPtr> under_way;
            for (;;) {
                const double interval_s = random.exponential(1 / rate);
                if (sg4::Engine::get_clock() + interval_s >= until_s) {
                    break;
                }
                sg4::this_actor::sleep_for(interval_s);
                for (size_t index = 0; index < under_way.size();) {
                    if (under_way[index]->test()) {
                        record(*under_way[index]);
                        under_way[index] = under_way.back();
                        under_way.pop_back();
                    } else {
                        index++;
                    }
                }
                const int direction = static_cast<int>(random.next() >> 62);
                sg4::Host* target = hosts[target_of(host, direction)];
                under_way.push_back(sg4::Comm::sendto_async(hosts[host], target, MESSAGE_BYTES));
            }
            for (const sg4::CommPtr& message : under_way) {
                message->wait();
                record(*message);
            }
        });
    }

    const auto begin = std::chrono::steady_clock::now();
    engine.run();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;

    const double count = static_cast<double>(latencies.count);
    std::printf("{\"peer\": \"simgrid %d.%d\", \"rate_per_s\": %g, \"simulated_s\": %.6f, \"messages\": %llu, "
                "\"latency_us\": {\"mean\": %.3f, \"sd\": %.3f}, \"wall_s\": %.6f, \"messages_per_wall_s\": %.1f}\n",
                SIMGRID_VERSION_MAJOR, SIMGRID_VERSION_MINOR, rate, sg4::Engine::get_clock(),
                static_cast<unsigned long long>(latencies.count), latencies.mean,
                std::sqrt(latencies.squares / (count - 1)), wall.count(), count / wall.count());
    return 0;
}
