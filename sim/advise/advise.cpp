#include "sim/advise/advise.hpp"
#include "sim/report/input_pipeline.hpp"
#include "sim/report/memory_margin.hpp"
#include "sim/report/pair_bar.hpp"

#include "sim/advise/changes.hpp"
#include "sim/memory/ready.hpp"
#include "sim/plan/verify.hpp"
#include "sim/scenario/variations.hpp"
#include "sim/trace/critical_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace orrery {
namespace {

constexpr double tie = 0.02; // steps repeat no better
constexpr double more = 1.1; // of a rate of the machine

void raise(BytesPerSecond& rate) { rate.value *= more; }

std::string sentence(std::string text) {
    if (!text.empty()) text[0] = static_cast<char>(std::toupper(text[0]));
    return text;
}

std::string percent(double share) { return fmt::format("{:.1f} %", std::abs(share) * 100); }

// "host to disk" and the like are queues of copies; "host", "host.update" those of the host's own work.
std::string resource_of(const Trace& trace, const Span& span) {
    const TraceOp& op = trace.ops[span.op];
    const std::string& queue = trace.queues[span.queue];
    if (queue.find("disk") != std::string::npos) return "NVMe";
    if (queue.starts_with("host") && op.kind != "copy-host" && op.kind != "host-work") return "hosts' memory and updates";
    static const std::map<std::string, const char*> kernels{{"linear", "matrix products"},   {"matmul", "matrix products"},
                                                            {"attention", "attention"},      {"softmax", "attention"},
                                                            {"optimizer", "optimizer"},      {"host-sync", "launches, host"},
                                                            {"host-work", "launches, host"}, {"copy-host", "copies to and from the host"}};
    if (const auto it = kernels.find(op.kind); it != kernels.end()) return it->second;
    static constexpr std::pair<const char*, const char*> networks[] = {
        {"tp", "tensor-parallel communication"}, {"cp", "context-parallel communication"},
        {"ep", "expert-parallel communication"}, {"pp", "transfers between stages"},
        {"dp", "data-parallel communication"},   {"edp", "data-parallel communication of experts"}};
    if (op.kind == "exchange") return "transfers between stages";
    for (const auto& [prefix, words] : networks)
        if (queue.starts_with(prefix)) return words;
    return queue == "compute" ? "kernels that move bytes" : queue + " communication";
}

// step_s: a trace of a round has several steps.
std::vector<OnPath> path_of(const Trace& trace, double step_s) {
    std::vector<OnPath> path;
    for (const auto& [resource, s] : seconds_on_path(trace, step_s, resource_of))
        if (s > 0) path.push_back({resource, s});
    std::ranges::stable_sort(path, std::greater{}, &OnPath::seconds);
    return path;
}

// A group of constants in this job's words: where something lives on the host, the group's share is mostly that.
std::string words_of(CostGroup g, const Scenario& s) {
    const Offload& o = s.strategy.offload;
    if (g == CostGroup::host && o != Offload{})
        return o.optimizer == Tier::nvme || o.parameters == Tier::nvme || o.activations == Tier::nvme
                   ? "the way to NVMe and the host, launches"
                   : "the way to the host, launches";
    if (g == CostGroup::memory && o.optimizer != Tier::none) return "kernels that move bytes, the hosts' updates among them";
    return in_words(g);
}

// The groups that a step follows: those of constants, then the wait for samples (training.data).
constexpr std::size_t samples_group = cost_group_count;
double share_of(const Report& r, std::size_t group) { return group == samples_group ? r.input.share : r.shares[group]; }
std::size_t largest(const Report& r) {
    const auto group = static_cast<std::size_t>(std::ranges::max_element(r.shares) - r.shares.begin());
    return r.input.share > r.shares[group] ? samples_group : group;
}
// Everything that samples pass is `times` as fast: as if there were fewer of them.
void read_faster(InputPipeline& data, double times) {
    for (double* of_sample : {&data.bytes_per_sample, &data.bytes_spread, &data.cpu_ms_per_sample}) *of_sample /= times;
}
std::string words_of(std::size_t group, const Report& r, const Scenario& s) {
    return group == samples_group ? "reading samples (" + r.input.limit + ")" : words_of(static_cast<CostGroup>(group), s);
}

class Adviser {
  public:
    Adviser(std::string json, const AdviseOptions& options) : json_(std::move(json)), options_(options) {
        trying_.parsing = options.parsing;
        trying_.parsing.overrides.clear(); // json_ has them
        trying_.jobs = options.jobs;
    }

    Advice advise(const Scenario& scenario) {
        a_.scenario = scenario;
        tell("the step");
        PredictOptions predicting;
        predicting.shares = true;
        predicting.shares_up_to = interval_shares;
        predicting.simulate.trace = predicting.simulate.only_small_traces = true;
        plan_.emplace(verified_plan(scenario));
        Prediction p = predict(scenario, *plan_, predicting);
        a_.report = p.report;
        a_.name = a_.report.name;
        a_.simulated = 1 + cost_group_count;
        if (p.simulation.trace) a_.path = path_of(*p.simulation.trace, p.simulation.step_time.seconds());
        const double samples = p.report.input.stall_s, waits = p.report.step_time_s - samples - p.simulation.step_time.seconds();
        if (scenario.strategy.loose() && waits > 0)
            a_.path.push_back({scenario.strategy.served() ? "gradients to servers, parameters back" : "parameters of peers", waits});
        if (samples > 0) a_.path.push_back({words_of(samples_group, p.report, scenario), samples});
        std::ranges::stable_sort(a_.path, std::greater{}, &OnPath::seconds);
        p.simulation.trace.reset();
        tell("the next bottleneck");
        next_bottleneck();
        tell("faster machines");
        faster_machine();
        tell("changes");
        changes();
        tell("other strategies");
        why_nots();
        guided();
        a_.verdict = verdict();
        return std::move(a_);
    }

  private:
    void tell(const char* doing) const {
        if (options_.progress) options_.progress(doing);
    }
    bool fits() const { return a_.report.memory.fits; }
    double step() const { return a_.report.step_time_s; }

    // The group that the step follows most twice as fast, then four and eight times, until another leads.
    void next_bottleneck() {
        const std::size_t first = largest(a_.report);
        if (share_of(a_.report, first) <= 0) return;
        PredictOptions predicting;
        predicting.shares = true;
        for (double times = 2; times <= 8; times *= 2) {
            Scenario s = a_.scenario;
            if (first == samples_group)
                read_faster(*s.training.data, times);
            else
                predicting.simulate.factors[first] = 1 / times;
            const Report r = predict(s, *plan_, predicting).report;
            a_.simulated += 1 + cost_group_count;
            const std::size_t next = largest(r);
            a_.next = NextBottleneck{words_of(first, a_.report, a_.scenario),
                                     words_of(next, r, a_.scenario),
                                     share_of(a_.report, first),
                                     share_of(r, next),
                                     times,
                                     r.step_time_s};
            if (next != first) return;
        }
    }

    template <class F> void with_faster(const char* part, F&& change) {
        Scenario s = a_.scenario;
        PredictOptions predicting;
        change(s, predicting.simulate.factors);
        const double seconds = predict(s, *plan_, predicting).report.step_time_s;
        ++a_.simulated;
        a_.faster.push_back({part, seconds, 1 - seconds / step()});
    }

    void faster_machine() {
        const auto each_device = [](Cluster& c, const auto& change) {
            change(c.device);
            for (OtherNodes& other : c.others) change(other.device);
        };
        with_faster("matrix peak of the devices", [&](Scenario& s, CostFactors&) {
            each_device(s.cluster, [](Device& d) {
                for (auto& [dtype, peak] : d.peak) peak.value *= more;
            });
        });
        with_faster("memory bandwidth of the devices",
                    [&](Scenario& s, CostFactors&) { each_device(s.cluster, [](Device& d) { raise(d.memory_bandwidth); }); });
        if (a_.scenario.cluster.devices_per_node > 1 && !a_.scenario.cluster.graph)
            with_faster("links inside a node", [&](Scenario& s, CostFactors&) {
                raise(s.cluster.intra.bandwidth);
                each_device(s.cluster, [](Device& d) { raise(d.scale_up); });
                for (OtherNodes& other : s.cluster.others) raise(other.scale_up);
            });
        if (a_.scenario.cluster.nodes > 1 && !a_.scenario.cluster.graph)
            with_faster("network between nodes", [&](Scenario& s, CostFactors&) {
                raise(s.cluster.inter.nic_bandwidth);
                for (OtherNodes& other : s.cluster.others) raise(other.nic_bandwidth);
            });
        faster_host();
        faster_input();
        if (a_.scenario.strategy.offload == Offload{})
            with_faster("hosts (launches, their own work)", [](Scenario&, CostFactors& f) { f[CostGroup::host] /= more; });
        else // copies and updates have rows of their own
            with_faster("hosts' launches", [](Scenario& s, CostFactors&) {
                s.cluster.host.speed *= more; // calls, hooks and exchanges too
                s.runtime.launch_us /= more, s.cluster.device.launch_us /= more;
            });
        std::ranges::stable_sort(a_.faster, std::greater{}, &FasterPart::gain);
    }

    // Where something lives on the host or on NVMe: the rates that the cluster states.
    void faster_host() {
        const Host& host = a_.scenario.cluster.host;
        if (a_.scenario.strategy.offload == Offload{}) return;
        if (host.pcie_bandwidth.value > 0)
            with_faster("links to the hosts (PCIe)", [](Scenario& s, CostFactors&) { raise(s.cluster.host.pcie_bandwidth); });
        if (host.memory_bandwidth.value > 0 || host.adam_rate > 0)
            with_faster("hosts' memory and updates", [](Scenario& s, CostFactors&) {
                raise(s.cluster.host.memory_bandwidth), raise(s.cluster.host.cxl_bandwidth);
                s.cluster.host.adam_rate *= more;
            });
        if (host.nvme_bandwidth.value + host.nvme_read.value + host.nvme_write.value > 0)
            with_faster("NVMe of the hosts", [](Scenario& s, CostFactors&) {
                Host& h = s.cluster.host;
                raise(h.nvme_bandwidth), raise(h.nvme_read), raise(h.nvme_write);
            });
    }

    // The stations that samples pass; the network between nodes has a row of its own.
    void faster_input() {
        if (!a_.scenario.training.data) return;
        with_faster("storage of the samples", [](Scenario& s, CostFactors&) {
            Storage& storage = s.cluster.storage;
            storage.read = BytesPerSecond{input_supply(s).storage}; // what is assumed where none is stated
            raise(storage.read), raise(storage.per_node);
            storage.latency = Time::seconds(storage.latency.seconds() / more);
        });
        with_faster("readers and decoding", [](Scenario& s, CostFactors&) {
            InputPipeline& data = *s.training.data;
            data.reader_mb_per_s *= more, data.cpu_ms_per_sample /= more;
        });
    }

    void changes() {
        if (!fits()) {
            FixOptions fixing;
            fixing.trying = trying_;
            a_.fix = cheapest_fix(json_, fixing);
            a_.simulated += a_.fix->looked_at;
            return;
        }
        std::vector<StrategyChange> all = neighbours(a_.scenario), kinds = other_kinds(a_.scenario);
        all.insert(all.end(), kinds.begin(), kinds.end());
        a_.simulated += static_cast<int>(all.size());
        for (Trial& t : try_all(json_, all, trying_)) {
            if (!t.fits() || t.report->step_time_s <= 0) continue;
            if (a_.report.narrow() && !t.report->narrow() && t.peak() < peak()) a_.safer.push_back(t);
            if (t.report->step_time_s < step() * (1 - 0.001)) a_.better.push_back(std::move(t));
        }
        const auto by_time = [](const Trial& t) { return t.report->step_time_s; };
        std::ranges::stable_sort(a_.better, {}, by_time);
        std::ranges::stable_sort(a_.safer, {}, by_time);
        const std::vector<StrategyChange> others = other_trainings(a_.scenario);
        a_.simulated += static_cast<int>(others.size());
        for (Trial& t : try_all(json_, others, trying_))
            if (t.fits() && t.report->step_time_s > 0 && t.report->step_time_s < step() * (1 - tie)) a_.otherwise.push_back(std::move(t));
        std::ranges::stable_sort(a_.otherwise, {}, by_time);
    }

    double peak() const { return static_cast<double>(fullest(a_.report.memory).peak.count); }

    // The number that decides, against the scenario's own step.
    WhyNot answer(Trial trial) const {
        WhyNot w{std::move(trial), "", 0, false, 0, 0};
        const Trial& t = w.trial;
        if (!t.refused.empty()) {
            w.answer = "not possible: " + t.refused;
        } else if (!t.fits()) {
            w.answer = "does not fit: " + ::orrery::why_not(t.report->memory);
        } else {
            w.against = t.report->step_time_s / step() - 1;
            const PairBar bar =
                pair_bar({a_.report.configuration, step()}, {t.report->configuration, t.report->step_time_s}, validated_rows());
            if (bar.width > 0) {
                w.least = (1 + w.against) * std::exp(-bar.width) - 1, w.most = (1 + w.against) * std::exp(bar.width) - 1;
                w.inside = w.least < 0 && w.most > 0;
            }
            std::size_t most = 0;
            double difference = 0;
            for (std::size_t c = 0; c < t.report->breakdown_s.size(); ++c) {
                const double d = (t.report->breakdown_s[c] - a_.report.breakdown_s[c]) * (w.against < 0 ? -1 : 1);
                if (d > difference) difference = d, most = c;
            }
            if (std::abs(w.against) <= tie)
                w.answer = fmt::format("as fast within {:.0f} %", tie * 100);
            else
                w.answer = fmt::format("{} {}", percent(w.against), w.against > 0 ? "slower" : "faster: try it");
            if (difference > 0)
                w.answer += fmt::format("; {} {} {}", seconds_text(difference), w.against < 0 ? "less" : "more",
                                        in_words(static_cast<Category>(most)));
            w.answer += fmt::format("; {:.1f} GB at its peak", t.peak() * 1e-9);
            if (!fits()) w.answer += "; it fits";
        }
        return w;
    }

    // Three: those that fit say most, then those that do not, then those that no rule allows. None that comes to the scenario's own
    // strategy or to one that is named already.
    void why_nots() {
        const std::vector<StrategyChange> questions = colleagues_questions(a_.scenario);
        a_.simulated += static_cast<int>(questions.size());
        const auto same = [](const Scenario& a, const Scenario& b) { return a.strategy == b.strategy && a.training == b.training; };
        std::vector<Scenario> named{a_.scenario};
        for (const Trial& t : a_.better) named.push_back(*t.scenario);
        for (Trial& t : try_all(json_, questions, trying_)) {
            if (t.scenario && std::ranges::any_of(named, [&](const Scenario& s) { return same(s, *t.scenario); })) continue;
            if (t.scenario) named.push_back(*t.scenario);
            a_.why_not.push_back(answer(std::move(t)));
        }
        const auto rank = [](const WhyNot& w) { return !w.trial.refused.empty() ? 2 : w.trial.fits() ? 0 : 1; };
        std::ranges::stable_sort(a_.why_not, {}, rank);
        if (a_.why_not.size() > 3) a_.why_not.resize(3);
    }

    // The first of the guide's strategies that fits, by memory alone; that one is simulated.
    void guided() {
        TryOptions memory = trying_;
        memory.simulate = false;
        for (const StrategyChange& c : guide(a_.scenario)) {
            const Trial t = try_one(json_, c, memory);
            ++a_.simulated;
            if (!t.fits()) continue;
            a_.guide.strategy = try_one(json_, c, trying_);
            break;
        }
        if (!a_.guide.strategy || !a_.guide.strategy->fits()) {
            a_.guide.answer = "none of the strategies that the field's guide names fits";
            return;
        }
        const Trial& g = *a_.guide.strategy;
        double best = fits() ? step() : g.report->step_time_s;
        std::string who = "this scenario";
        const auto consider = [&](const Trial& t) {
            if (t.fits() && t.report->step_time_s > 0 && t.report->step_time_s < best) best = t.report->step_time_s, who = t.change.words;
        };
        for (const Trial& t : a_.better) consider(t);
        for (const WhyNot& w : a_.why_not) consider(w.trial);
        if (a_.fix && a_.fix->change) consider(*a_.fix->change);
        const double behind = g.report->step_time_s / best - 1;
        a_.guide.confirmed = behind <= tie;
        a_.guide.answer = fmt::format("{} ({}, {:.1f} GB{})", g.change.words, seconds_text(g.report->step_time_s), g.peak() * 1e-9,
                                      g.report->narrow() ? ", narrowly" : "");
        const double gain = fits() ? 1 - g.report->step_time_s / step() : 0;
        const std::string ahead = gain > tie ? fmt::format("{} faster than this scenario, ", percent(gain)) : "";
        a_.guide.answer += a_.guide.confirmed
                               ? fmt::format(": confirmed, {}nothing simulated here is more than {:.0f} % faster", ahead, tie * 100)
                               : fmt::format(": refuted, {}{} is {} faster", ahead, who, percent(1 - best / g.report->step_time_s));
    }

    std::string verdict() const {
        const Report& r = a_.report;
        const std::string room = fmt::format("{:.1f} of {:.1f} GB", peak() * 1e-9, r.memory.capacity.gigabytes());
        std::string text;
        if (!fits())
            text = fmt::format("It does not fit: {}. ", ::orrery::why_not(r.memory));
        else
            text = fmt::format("It fits{} ({}), and a step takes {} at {:.1f} % MFU. ", r.narrow() ? " narrowly" : "", room, step_text(r),
                               r.mfu * 100);
        if (a_.fix) { return text + sentence(to_text(*a_.fix)) + "."; }
        const bool faster = !a_.better.empty() && a_.better.front().report->step_time_s <= step() * (1 - tie);
        if (r.narrow() && !a_.safer.empty())
            return text +
                   fmt::format("Some plans that leave less than {:.0f} % do not fit: {} makes it fit surely ({:.1f} GB) for {:+.1f} % of "
                               "the step{}.",
                               memory_margin(r.error_bar.memory) * 100, a_.safer.front().change.words, a_.safer.front().peak() * 1e-9,
                               (a_.safer.front().report->step_time_s / step() - 1) * 100, faster ? "; " + fastest() : "");
        if (!faster)
            return text +
                   fmt::format("No single change of the strategy that was tried is more than {:.0f} % faster{}; what limits it is {}.",
                               tie * 100, a_.otherwise.empty() ? "" : " with the same numbers",
                               a_.path.empty() ? "not known" : a_.path.front().resource) +
                   another();
        return text + sentence(fastest()) + "." + another();
    }

    // The fastest of the guide's and the colleagues' strategies, where it is ahead of all single changes by more than a tie.
    std::string another() const {
        const Trial* best = nullptr;
        double least = (a_.better.empty() ? step() : std::min(step(), a_.better.front().report->step_time_s)) * (1 - tie);
        const auto consider = [&](const Trial& t) {
            if (!t.fits() || t.report->step_time_s <= 0 || t.report->step_time_s >= least) return;
            least = t.report->step_time_s, best = &t;
        };
        for (const WhyNot& w : a_.why_not) consider(w.trial);
        if (a_.guide.strategy) consider(*a_.guide.strategy);
        if (!best) return "";
        return fmt::format(" Another strategy does more: {} is {} faster than this scenario ({}, {:.1f} GB{}).", best->change.words,
                           percent(1 - least / step()), seconds_text(least), best->peak() * 1e-9,
                           best->report->narrow() ? ", narrowly" : "");
    }

    std::string fastest() const {
        const Trial& best = a_.better.front();
        return fmt::format("{} makes it {} faster ({}, {:.1f} GB{})", best.change.words, percent(1 - best.report->step_time_s / step()),
                           seconds_text(best.report->step_time_s), best.peak() * 1e-9, best.report->narrow() ? ", narrowly" : "");
    }

    std::string json_;
    const AdviseOptions& options_;
    TryOptions trying_;
    std::optional<Plan> plan_;
    Advice a_;
};

} // namespace

std::string whole_text(const std::string& json, const ParseOptions& parsing) {
    const Variations v(json, parsing);
    return v.problems().empty() ? v.json({}) : json;
}

AdviceResult advise(const std::string& json, const AdviseOptions& options) {
    ParseResult parsed = ready_scenario(json, options.parsing);
    if (!parsed.problems.empty() || !parsed.scenario) return {{}, std::move(parsed.problems)};
    return {Adviser(whole_text(json, options.parsing), options).advise(*parsed.scenario), {}};
}

} // namespace orrery
