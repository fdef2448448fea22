// Messages that all begin at time zero, on SimGrid's S4U interface, for a comparison of speed and of when the last one
// ends: on a torus of 16x16 switches with four hosts each, routed in the first dimension first and the shorter way round,
// or on hosts at one switch. Full-duplex links (one SimGrid link a direction) without latency, by which SimGrid would weigh
// the flows; hosts and NICs cost nothing; links share by max-min fairness (model CM02 with every correction factor off).
//
// Usage: burst torus|switch FILE
//   FILE  the list of messages that viaduct reads: a line of names, then `time_us,source,target,bytes` each
// Prints one JSON object.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <simgrid/s4u.hpp>
#include <simgrid/version.h>
#include <xbt/log.h>

namespace sg4 = simgrid::s4u;

namespace {

constexpr int SIDE = 16;
constexpr int HOSTS_A_SWITCH = 4;
constexpr double LINK_BYTES_PER_SECOND = 856e6 / 8;

struct Message {
    int source;
    int target;
    double bytes;
};

class Network {
public:
    Network(bool is_torus, int hosts) : is_torus_(is_torus), zone_(sg4::create_full_zone("network"))
    {
        for (int host = 0; host < hosts; host++) {
            hosts_.push_back(zone_->create_host("h" + std::to_string(host), 1e9)->seal());
            up_.push_back(link("up" + std::to_string(host)));
            down_.push_back(link("down" + std::to_string(host)));
        }
        for (int number = 0; is_torus && number < SIDE * SIDE * 4; number++) {
            mesh_.push_back(link("mesh" + std::to_string(number)));
        }
    }

    void add_route(int source, int target)
    {
        std::vector<sg4::LinkInRoute> route{sg4::LinkInRoute(up_[source])};
        if (is_torus_) {
            int at[2] = {source / HOSTS_A_SWITCH % SIDE, source / HOSTS_A_SWITCH / SIDE};
            const int goal[2] = {target / HOSTS_A_SWITCH % SIDE, target / HOSTS_A_SWITCH / SIDE};
            for (int dimension = 0; dimension < 2; dimension++) {
                const int ahead = (goal[dimension] - at[dimension] + SIDE) % SIDE;
                const bool is_positive = ahead <= SIDE / 2;
                while (at[dimension] != goal[dimension]) {
                    const int direction = dimension * 2 + (is_positive ? 0 : 1);
                    route.emplace_back(mesh_[(at[0] * SIDE + at[1]) * 4 + direction]);
                    at[dimension] = (at[dimension] + (is_positive ? 1 : SIDE - 1)) % SIDE;
                }
            }
        }
        route.emplace_back(down_[target]);
        zone_->add_route(hosts_[source]->get_netpoint(), hosts_[target]->get_netpoint(), nullptr, nullptr, route,
                         false);
    }

    void seal() { zone_->seal(); }

    sg4::Host* host(int number) const { return hosts_[number]; }

private:
    const sg4::Link* link(const std::string& name)
    {
        return zone_->create_link(name, LINK_BYTES_PER_SECOND)
            ->set_latency(0)
            ->set_sharing_policy(sg4::Link::SharingPolicy::SHARED)
            ->seal();
    }

    bool is_torus_;
    sg4::NetZone* zone_;
    std::vector<sg4::Host*> hosts_;
    std::vector<const sg4::Link*> up_;
    std::vector<const sg4::Link*> down_;
    std::vector<const sg4::Link*> mesh_;
};

std::vector<Message> read(const char* path)
{
    std::vector<Message> messages;
    FILE* file = std::fopen(path, "r");
    if (file == nullptr) {
        std::perror(path);
        std::exit(1);
    }
    char line[256];
    while (std::fgets(line, sizeof line, file) != nullptr) {
        Message message{};
        if (std::sscanf(line, "%*[^,],%d,%d,%lf", &message.source, &message.target, &message.bytes) == 3) {
            messages.push_back(message);
        }
    }
    std::fclose(file);
    return messages;
}

} // namespace

int main(int argc, char** argv)
{
    xbt_log_control_set("root.thres:warning");
    sg4::Engine engine(&argc, argv);
    if (argc != 3) {
        std::fprintf(stderr, "usage: %s torus|switch FILE\n", argv[0]);
        return 1;
    }
    sg4::Engine::set_config("network/model:CM02");
    sg4::Engine::set_config("network/TCP-gamma:0");
    sg4::Engine::set_config("network/crosstraffic:0");
    sg4::Engine::set_config("network/bandwidth-factor:1");
    sg4::Engine::set_config("network/latency-factor:1");
    sg4::Engine::set_config("network/weight-S:0");

    const bool is_torus = std::strcmp(argv[1], "torus") == 0;
    const std::vector<Message> messages = read(argv[2]);
    int hosts = is_torus ? SIDE * SIDE * HOSTS_A_SWITCH : 0;
    for (const Message& message : messages) {
        hosts = std::max({hosts, message.source + 1, message.target + 1});
    }
    Network network(is_torus, hosts);
    std::set<std::pair<int, int>> routes;
    for (const Message& message : messages) {
        if (routes.emplace(message.source, message.target).second) {
            network.add_route(message.source, message.target);
        }
    }
    network.seal();

    double sum_s = 0;
    double last_s = 0;
    sg4::Actor::create("application", network.host(0), [&] {
        std::vector<sg4::CommPtr> under_way;
        for (const Message& message : messages) {
            sg4::Host* source = network.host(message.source);
            sg4::Host* target = network.host(message.target);
            under_way.push_back(sg4::Comm::sendto_async(source, target, static_cast<uint64_t>(message.bytes)));
        }
        for (const sg4::CommPtr& message : under_way) {
            message->wait();
            sum_s += message->get_finish_time();
            last_s = std::max(last_s, message->get_finish_time());
        }
    });
    const auto begin = std::chrono::steady_clock::now();
    engine.run();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    std::printf("{\"peer\": \"simgrid %d.%d\", \"messages\": %zu, \"latency_us\": {\"mean\": %.3f, \"max\": %.3f}, "
                "\"wall_s\": %.6f}\n",
                SIMGRID_VERSION_MAJOR, SIMGRID_VERSION_MINOR, messages.size(),
                sum_s * 1e6 / static_cast<double>(messages.size()), last_s * 1e6, wall.count());
    return 0;
}
