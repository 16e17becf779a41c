#include "dsl/planning/compile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "dsl/base/diagnostic.hpp"
#include "dsl/planning/candidate.hpp"
#include "dsl/planning/site.hpp"
#include "dsl/planning/tiling.hpp"
#include "dsl/projection/project.hpp"
#include "dsl/proof/order.hpp"

namespace hocket::dsl {

namespace {

Demands demands_of(const PlanRequest& request) {
    const bool combines = request.op && contract_of(request.collective).combines();
    Demands demands{request.counts, combines && !request.op->commutative,
                    combines && !request.op->associative, request.follow};
    if (demands.concern_order()) demands.follow = Proofs::Follow::all_ranks;
    return demands;
}

class Checked : public CheckedSchedule {
  public:
    Checked(std::shared_ptr<Site> site, const PlanRequest& request)
        : site_(std::move(site)),
          root_(request.root),
          hosts_(request.hosts),
          protocol_(request.protocol),
          counts_(request.counts),
          deadline_(request.deadline) {
        const Rank ranks = site_->topology.ranks();
        if (!hosts_.empty() && hosts_.size() != static_cast<std::size_t>(ranks))
            throw DiagnosticError(Span(),
                                  fmt::format("hosts are given for {} ranks of {}", hosts_.size(), ranks));
        check_root(root_, ranks);
        std::string schedule = request.schedule;
        const Demands demands = demands_of(request);
        std::optional<Proofs::Proof> proof;
        if (schedule.empty()) {
            const Chosen chosen =
                site_->choices.schedule(request.collective, root_, request.bytes, &proof, demands);
            schedule = chosen.name;
            choices_.push_back(chosen.why);
        }
        runnable_ = site_->choices.in_tiles(find_runnable(site_->library, schedule, request.collective),
                                            root_, request.bytes);
        if (!proof)
            proof =
                site_->proofs.prove(runnable_, root_, site_->choices.chooser(runnable_, root_, request.bytes),
                                    nullptr, demands.follow);
        proof_ = std::move(*proof);
        require(graph(), counts_, runnable_.name);
        if (demands.concern_order())
            require_order(site_->proofs.order_needs_of(proof_), *request.op, graph(), runnable_.name);
        for (const Choice& choice : proof_.choices)
            choices_.push_back(location_of(choice.call) + ": " + choice.text);
    }

    // All ranks of a host have to be projected together: the places of a rank's pieces depend on all that its
    // local peers do.
    RankProgram project(Rank rank) const override {
        std::vector<Rank> host;
        for (Rank other = 0; other < levels().ranks(); ++other)
            if (other == rank || (!hosts_.empty() && hosts_[other] == hosts_[rank])) host.push_back(other);
        const auto [graph, completion] = steps_of(host);
        RankProgram program =
            dsl::project(*graph, rank, host, protocol_, deadline_, *completion,
                         counts_ == Counts::by_pair ? Copying::by_receivers : Copying::by_either);
        program.schedule = runnable_.name;
        program.topology = topology();
        program.fingerprint = fingerprint();
        program.memory_is_shared = std::set(hosts_.begin(), hosts_.end()).size() < hosts_.size();
        const auto share = [&](Rank a, Rank b) { return hosts_[a] == hosts_[b]; };
        if (program.memory_is_shared && host.size() < hosts_.size())
            program.most_messages = proof_.symmetry
                                        ? most_messages(*proof_.graph, proof_.symmetry->symmetry, share)
                                        : most_messages(*proof_.graph, share);
        return program;
    }

    const StepGraph& graph() const override { return *proof_.graph; }
    bool is_by_symmetry() const override { return proof_.symmetry != nullptr; }
    std::uint64_t fingerprint() const override { return proof_.fingerprint; }
    double estimate(double bytes, double value_bytes) const override {
        if (!proof_.symmetry) return estimate_as_candidate(graph(), levels(), bytes, deadline_, value_bytes);
        const Chooser chooser = chooser_of(proof_.choices);
        const std::lock_guard lock(site_->in_use);
        return estimate_of(graph(), runnable_, site_->library, levels(), 0, chooser, deadline_)
            .seconds(bytes, deadline_);
    }
    const std::string& name() const override { return runnable_.name; }
    const std::string& topology() const override { return levels().name; }
    const Topology& levels() const override { return site_->topology; }
    const std::vector<std::string>& choices() const override { return choices_; }

  private:
    // Returns at least the steps that concern these ranks, and what they complete.
    std::pair<std::shared_ptr<const StepGraph>, std::shared_ptr<const Completion>> steps_of(
        const std::vector<Rank>& host) const {
        if (!proof_.symmetry) return {proof_.graph, proof_.completion};
        const std::lock_guard lock(site_->in_use);
        auto [graph, completion] = site_->proofs.steps_of(host, proof_, runnable_, deadline_);
        return {std::make_shared<const StepGraph>(std::move(graph)),
                std::make_shared<const Completion>(std::move(completion))};
    }

    std::shared_ptr<Site> site_;
    Rank root_;
    std::vector<int> hosts_;
    Protocol protocol_;
    Counts counts_;
    Deadline deadline_;
    Runnable runnable_;
    Proofs::Proof proof_;
    std::vector<std::string> choices_;
};

}  // namespace

Planner::Planner(std::vector<std::string> search_path, const Library& library) {
    libraries_.emplace(std::move(search_path), library);
}

const Library& Planner::library(const std::vector<std::string>& search_path) {
    return libraries_.try_emplace(search_path, search_path).first->second;
}

const std::shared_ptr<Site>& Planner::site_of(const PlanRequest& request) {
    const std::string file = file_of(request.schedule);
    std::shared_ptr<Site>& site = sites_[{request.search_path, request.topology, request.ranks, file}];
    if (!site || site->library.has_changed())
        site = std::make_shared<Site>(library(request.search_path), request.topology, request.ranks,
                                      request.deadline);
    site->deadline = request.deadline;
    return site;
}

std::recursive_mutex& Planner::mutex_of(Site& site) {
    return site.in_use;
}

void Planner::forget_site(const PlanRequest& request) {
    sites_.erase({request.search_path, request.topology, request.ranks, file_of(request.schedule)});
}

std::unique_ptr<CheckedSchedule> Planner::check(const PlanRequest& request) {
    return on_site(request, [&](const std::shared_ptr<Site>& site) -> std::unique_ptr<CheckedSchedule> {
        return std::make_unique<Checked>(site, request);
    });
}

std::unique_ptr<CheckedSchedule> check_schedule(const PlanRequest& request) {
    return Planner().check(request);
}

}  // namespace hocket::dsl
