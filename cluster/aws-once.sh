#!/usr/bin/env bash
# What cluster.yaml needs once in an account: the head's role, that of spot machines, and the volume that `ray down`
# leaves. It says how many workers the account's quotas allow.
#
#   bash cluster/aws-once.sh us-west-2a 50     # the zone of cluster.yaml, and the volume's size in GB
#
# It may be run again: what is there already stays as it is. The role may start and end machines of this cluster, attach
# this volume and look up public images; nothing else.
set -eu -o pipefail
zone=${1:?expected the zone of cluster.yaml, such as us-west-2a} size=${2:?expected the size of the volume in GB}
region=${zone%[a-z]} role=tune-vfl-head volume=tune-vfl-lasting cluster=tune-vfl

if ! aws iam get-role --role-name $role >/dev/null 2>&1; then
  aws iam create-role --role-name $role --assume-role-policy-document '{
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]
  }' >/dev/null
fi
aws iam put-role-policy --role-name $role --policy-name cluster --policy-document '{
  "Version": "2012-10-17",
  "Statement": [
    {"Effect": "Allow", "Action": ["ec2:Describe*", "ec2:RunInstances"], "Resource": "*"},
    {"Effect": "Allow", "Action": "ssm:GetParameters", "Resource": "arn:aws:ssm:*:*:parameter/aws/service/*"},
    {"Effect": "Allow", "Action": "ec2:CreateTags", "Resource": "*",
     "Condition": {"StringEquals": {"ec2:CreateAction": "RunInstances"}}},
    {"Effect": "Allow", "Action": ["ec2:CreateTags", "ec2:TerminateInstances"], "Resource": "arn:aws:ec2:*:*:instance/*",
     "Condition": {"StringEquals": {"ec2:ResourceTag/ray-cluster-name": "'$cluster'"}}},
    {"Effect": "Allow", "Action": "ec2:AttachVolume", "Resource": "arn:aws:ec2:*:*:volume/*",
     "Condition": {"StringEquals": {"ec2:ResourceTag/Name": "'$volume'"}}},
    {"Effect": "Allow", "Action": "ec2:AttachVolume", "Resource": "arn:aws:ec2:*:*:instance/*",
     "Condition": {"StringEquals": {"ec2:ResourceTag/ray-cluster-name": "'$cluster'"}}}
  ]
}'
if ! aws iam get-instance-profile --instance-profile-name $role >/dev/null 2>&1; then
  aws iam create-instance-profile --instance-profile-name $role >/dev/null
  aws iam add-role-to-instance-profile --instance-profile-name $role --role-name $role
fi

# EC2 starts spot machines by a role of its own, which the head may not make.
spot=AWSServiceRoleForEC2Spot
if ! aws iam get-role --role-name $spot >/dev/null 2>&1; then
  aws iam create-service-linked-role --aws-service-name spot.amazonaws.com >/dev/null
fi

there=$(aws ec2 describe-volumes --region "$region" --output text --query 'Volumes[].VolumeId' \
  --filters "Name=tag:Name,Values=$volume" "Name=availability-zone,Values=$zone")
if [ -z "$there" ]; then
  there=$(aws ec2 create-volume --region "$region" --availability-zone "$zone" --size "$size" --volume-type gp3 --encrypted \
    --output text --query VolumeId --tag-specifications \
    "ResourceType=volume,Tags=[{Key=Name,Value=$volume},{Key=tune-vfl:format,Value=yes}]")
fi
echo "roles $role and $spot; volume $there in $zone"

# vCPUs of spot machines at once: a new account may have none. Four workers of a kind take 32.
for kind in "GPU L-3819A6DF" "CPU L-34B43A08"; do
  read -r name code <<<"$kind"
  has=$(aws service-quotas get-service-quota --region "$region" --service-code ec2 --quota-code "$code" \
    --output text --query Quota.Value) || has=unknown
  echo "$name workers on spot, of 8 vCPUs each: the account's quota $code in $region is $has"
  test "${has%.*}" -ge 32 2>/dev/null || echo "for four of them: aws service-quotas request-service-quota-increase" \
    "--region $region --service-code ec2 --quota-code $code --desired-value 32"
done
